package workloads

import (
	"math/bits"
	"slices"
)

// urn draws experts one after another without repetition, with chances proportional to their
// weights (successive sampling, Plackett-Luce).
type urn struct {
	weight []uint64
	start  []uint64 // [i] sum of weight[:i]
	total  uint64
	keep   []uint64 // alias table (Vose 1991), see the method `one`
	alias  []int32
}

// maxRepeats limits how often the method draw tries again if it draws an expert twice. Then it calls `rest`, which
// draws only from the other experts. Both ways give these experts the same chances.
const maxRepeats = 3

// newUrn makes an urn of positive weights. The smallest possible weight is 2^-40 of the largest.
func newUrn(w []float64) *urn {
	top := 0.0
	for _, v := range w {
		top = max(top, v)
	}
	n := len(w)
	u := &urn{weight: make([]uint64, n), start: make([]uint64, n), keep: make([]uint64, n), alias: make([]int32, n)}
	for i, v := range w {
		u.weight[i] = max(1, uint64(v/top*(1<<40)))
		u.start[i] = u.total
		u.total += u.weight[i]
	}
	u.build()
	return u
}

func (u *urn) build() {
	n := uint64(len(u.weight))
	left := make([]uint64, n) // weight times n, minus the part that is already in the table
	var small, large []int32
	for i, w := range u.weight {
		left[i] = w * n // below 2^56
		if left[i] < u.total {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		u.keep[s], _ = bits.Div64(left[s], 0, u.total)
		u.alias[s] = l
		left[l] -= u.total - left[s]
		if left[l] < u.total {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, i := range append(small, large...) { // columns without an alias
		u.keep[i], u.alias[i] = 1<<64-1, i
	}
}

// draw fills dst with distinct experts.
func (u *urn) draw(r *rng, _ int, dst []int32) {
	for i := range dst {
		e := u.one(r)
		for tries := 0; slices.Contains(dst[:i], e); tries++ {
			if tries == maxRepeats {
				e = u.rest(r, dst[:i])
				break
			}
			e = u.one(r)
		}
		dst[i] = e
	}
}

func (u *urn) one(r *rng) int32 {
	i, x := bits.Mul64(r.next(), uint64(len(u.keep)))
	if x < u.keep[i] {
		return int32(i)
	}
	return u.alias[i]
}

func (u *urn) rest(r *rng, drawn []int32) int32 {
	var sorted [32]int32
	d := sorted[:copy(sorted[:], drawn)]
	slices.Sort(d)
	left := u.total
	for _, e := range d {
		left -= u.weight[e]
	}
	x, _ := bits.Mul64(r.next(), left)
	for _, e := range d {
		if x >= u.start[e] {
			x += u.weight[e]
		}
	}
	i, found := slices.BinarySearch(u.start, x)
	if !found {
		i--
	}
	return int32(i)
}

// shares estimates the probability that an expert is among k drawn experts. It draws k experts for many tokens and adds
// up the expert's chance at each single draw (Rao-Blackwell). If more than half of the tokens have the expert, shares
// returns their fraction instead, which is then less noisy than the sum of chances.
func (u *urn) shares(k int) []float64 {
	const tokens = 8192
	r, dst := newRNG(1), make([]int32, k)
	perWeight := 0.0                         // sum of 1 / (weight not yet drawn)
	missed := make([]float64, len(u.weight)) // [expert] part of perWeight from draws after the expert's own
	drawn := make([]float64, len(u.weight))
	for range tokens {
		u.draw(r, 0, dst)
		left, sum := u.total, 0.0
		at := make([]float64, 0, 32)
		for _, e := range dst {
			sum += 1 / float64(left)
			at = append(at, sum)
			left -= u.weight[e]
		}
		perWeight += sum
		for i, e := range dst {
			missed[e] += sum - at[i]
			drawn[e]++
		}
	}
	out := make([]float64, len(u.weight))
	for e, w := range u.weight {
		out[e] = float64(float64(w)*(perWeight-missed[e])) / tokens
		if drawn[e] > tokens/2 {
			out[e] = drawn[e] / tokens
		}
	}
	return out
}
