package workloads

import (
	"math"
	"slices"
)

// poisson draws sets of exactly k experts with conditional Poisson sampling (Chen, Dempster and Liu, Biometrika 81,
// 1994). Each expert has a share: the probability that a set contains the expert. Each expert also has odds. The
// probability of a set is proportional to the product of the odds of the set's experts.
type poisson struct {
	k      int
	always []int32     // experts with share 1
	order  []int32     // the other experts
	tail   [][]float64 // [j][i] see tails
}

// A share above `certain` counts as 1, and a share below `never` as 0, because their odds would be
// lost in rounding errors.
const (
	certain = 1 - 1e-9
	never   = 1e-12
)

// newPoisson prepares drawing. The shares are between 0 and 1, and their sum is k.
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
	case left >= len(want): // only after rounding errors
		p.always, p.order = append(p.always, p.order...), nil
	case left > 0:
		p.tail = tails(calibrate(want, left), left)
	}
	return p
}

// calibrate returns the odds that give the experts the shares `want`. calibrate takes half steps if
// full steps do not converge.
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

func inclusion(odds []float64, k int) []float64 {
	t := tails(odds, k)
	head := make([]float64, k+1) // [j] as in tails, but for odds[:i]
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

// tails returns a table [0..k][0..len(odds)]. Element [j][i] is the elementary symmetric sum of
// degree j of odds[i:].
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

func (p *poisson) draw(r *rng, _ int, dst []int32) {
	n := copy(dst, p.always)
	at := 0
	for j := p.k - n; j > 0; j-- {
		// With probability t[i]/t[at], the next expert is not in order[at:i].
		t := p.tail[j]
		cut := float64(r.float() * t[at])
		at += firstBelow(t[at+1:len(t)-j+1], cut)
		dst[n] = p.order[at]
		n, at = n+1, at+1
	}
	shuffle(r, dst)
}

// firstBelow returns the index of the first value below `cut`, or the last index. The values must
// descend.
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

// shares scales loads so that their sum is k. A load that would be above 1 becomes 1, and the other
// loads share the rest.
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
