package workloads

import "slices"

var uniformKind = kind{
	name: "uniform", doc: "top-k of independent random scores: every set of experts is equally likely",
	build: func(_ args, r *recipe) error { r.law = uniform; return nil },
}

func uniform(s drawRequest) (filler, error) {
	return eachToken(func(r *rng, _ int, dst []int32) { subset(r, 0, s.Experts, dst) }), nil
}

// subset fills dst with distinct members of [lo, hi). Every ordered choice is equally likely. hi-lo
// must be at least len(dst).
func subset(r *rng, lo, hi int, dst []int32) {
	if 2*len(dst) > hi-lo {
		denseSubset(r, lo, hi, dst)
		return
	}
	for i := range dst {
		e := int32(lo + r.below(hi-lo))
		for slices.Contains(dst[:i], e) {
			e = int32(lo + r.below(hi-lo))
		}
		dst[i] = e
	}
}

// denseSubset does the same as subset, but never redraws. subset calls it if redraws would be frequent.
func denseSubset(r *rng, lo, hi int, dst []int32) {
	var all [64]int32
	n := hi - lo
	for i := range n {
		all[i] = int32(lo + i)
	}
	for i := range dst {
		j := i + r.below(n-i)
		all[i], all[j] = all[j], all[i]
		dst[i] = all[i]
	}
}
