package workloads

import (
	"math"
	"slices"
)

// poisson draws the experts of a token: sets of exactly k experts. Each expert has a share, which is
// the probability that a set contains the expert. Among all distributions of sets with these shares,
// this one has the largest entropy. The method is conditional Poisson sampling (Chen, Dempster and
// Liu, Biometrika 81, 1994). It gives each expert a number, its odds, so that the probability of a
// set is proportional to the product of the odds of its experts.
type poisson struct {
	k      int
	always []int32     // experts with share 1
	order  []int32     // the other experts
	tail   [][]float64 // [j][i] sum over all sets of j experts of order[i:]; each term is the product of their odds
}

// A share above `certain` counts as 1, and a share below `never` counts as 0. The odds of such shares
// would be lost in rounding errors.
const (
	certain = 1 - 1e-9
	never   = 1e-12
)

// newPoisson prepares the drawing of sets of k experts. The shares are between 0 and 1, and their sum
// is k.
func newPoisson(share []float64, k int) *poisson {
	p := &poisson{k: k}
	var want []float64
	for e, s := range share {
		switch {
		case s >= certain:
			p.always = append(p.always, int32(e))
		case s > never:
			p.order = append(p.order, int32(e))
			want = append(want, s)
		}
	}
	switch left := k - len(p.always); {
	case left >= len(want): // because of rounding errors, every expert that is left must be drawn
		p.always, p.order = append(p.always, p.order...), nil
	case left > 0:
		p.tail = tails(calibrate(want, left), left)
	}
	return p
}

// calibrate finds the odds that give the experts the shares `want`. It corrects the odds again and
// again. With few experts and small k, full corrections go too far; then it makes half corrections.
func calibrate(want []float64, k int) []float64 {
	odds := make([]float64, len(want))
	for i, s := range want {
		odds[i] = s / (1 - s)
	}
	before, step := math.Inf(1), 1.0
	for range 60 {
		got := inclusion(odds, k)
		worst := 0.0
		for i, s := range want {
			worst = max(worst, math.Abs(got[i]/s-1))
		}
		if worst < 1e-8 {
			break
		}
		if worst > before/2 {
			step = 0.5
		}
		before = worst
		for i, s := range want {
			odds[i] *= pow(s*(1-got[i])/((1-s)*got[i]), step)
		}
	}
	return odds
}

// inclusion returns the share of each expert in sets of k experts with these odds.
func inclusion(odds []float64, k int) []float64 {
	t := tails(odds, k)
	head := make([]float64, k+1) // [j] sum over all sets of j experts of odds[:i]; each term is the product of their odds
	head[0] = 1
	out := make([]float64, len(odds))
	for i, w := range odds {
		sum := 0.0
		for j := range k {
			sum += float64(head[j] * t[k-1-j][i+1])
		}
		out[i] = float64(w*sum) / t[k][0]
		for j := k; j > 0; j-- {
			head[j] += float64(w * head[j-1])
		}
	}
	return out
}

// tails returns the table poisson.tail for these odds: [0..k][0..len(odds)]. Its elements are the
// elementary symmetric sums of the ends of the list odds.
func tails(odds []float64, k int) [][]float64 {
	n := len(odds)
	t := make([][]float64, k+1)
	for j := range t {
		t[j] = make([]float64, n+1)
	}
	for i := n; i >= 0; i-- {
		t[0][i] = 1
		for j := 1; j <= k && i < n; j++ {
			t[j][i] = t[j][i+1] + float64(odds[i]*t[j-1][i+1])
		}
	}
	return t
}

// draw fills dst with a set of k experts in random order.
func (p *poisson) draw(r *rng, _ int, dst []int32) {
	n := copy(dst, p.always)
	at := 0
	for j := p.k - n; j > 0; j-- {
		// With probability t[i]/t[at], the next expert is none of order[at:i].
		t := p.tail[j]
		cut := float64(r.float() * t[at])
		at += firstBelow(t[at+1:len(t)-j+1], cut)
		dst[n] = p.order[at]
		n, at = n+1, at+1
	}
	shuffle(r, dst)
}

// firstBelow returns the index of the first value below `cut`. If no value is below it, firstBelow
// returns the last index. The values must be in descending order.
func firstBelow(s []float64, cut float64) int {
	lo, hi := 0, len(s)-1
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if s[mid] < cut {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// shares scales loads so that their sum is k and none is above 1. A load that would be above 1
// becomes 1, and the other loads are scaled to what is left.
func shares(load []float64, k int) []float64 {
	out := slices.Clone(load)
	full := make([]bool, len(load))
	for left := float64(k); ; {
		sum := 0.0
		for e, v := range load {
			if !full[e] {
				sum += v
			}
		}
		over := false
		for e, v := range load {
			if full[e] {
				continue
			}
			if out[e] = float64(v/sum) * left; out[e] >= 1 {
				out[e], full[e], over = 1, true, true
			}
		}
		if !over {
			return out
		}
		left = float64(k)
		for _, f := range full {
			if f {
				left--
			}
		}
	}
}
