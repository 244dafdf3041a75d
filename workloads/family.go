package workloads

import (
	"fmt"
	"math"
)

// family is a law given by how often each expert is wanted: loads by
// popularity, which the seed hands out to experts. Sets of experts then have
// exactly these shares, see poisson.
type family struct {
	load  func(s site, x float64) ([]float64, error) // [experts] relative loads, any order
	param param                                      // what x is
	x     float64                                    // its value, or the target of aim
	aim   string                                     // statistic to solve x for
	fixed bool                                       // load is by expert id, not by popularity
	show  func(x float64) float64                    // x as people write it, where it is solved in another scale
}

func (f family) prepare(s site) (filler, error) {
	x, err := f.solve(s)
	if err != nil {
		return nil, err
	}
	share, err := f.shares(s, x)
	if err != nil {
		return nil, err
	}
	if !f.fixed {
		share = scatter(share, s.seed)
	}
	return eachToken(newPoisson(share, s.TopK).draw), nil
}

func (f family) shares(s site, x float64) ([]float64, error) {
	load, err := f.load(s, x)
	if err != nil {
		return nil, err
	}
	return shares(load, s.TopK), nil
}

// solve finds x.
func (f family) solve(s site) (float64, error) {
	if f.aim == "" {
		return f.x, nil
	}
	return solve(f.aim, f.x, f.param, func(x float64) ([]float64, error) { return f.shares(s, x) })
}

// scatter hands values by popularity to experts.
func scatter(v []float64, seed uint64) []float64 {
	out := make([]float64, len(v))
	for j, e := range newRNG(seed, streamHot).perm(len(v)) {
		out[e] = v[j]
	}
	return out
}

// solve finds the value of p at which a statistic of the expected shares is
// target, the largest where there are several. The error says what the
// statistic can reach.
func solve(name string, target float64, p param, share func(x float64) ([]float64, error)) (float64, error) {
	const steps = 16
	of, low, high := findAim(name).of, math.Inf(1), math.Inf(-1)
	var hi, atHi float64
	for i := steps; i >= 0; i-- {
		lo := p.min + float64((p.max-p.min)*float64(i)/steps)
		s, err := share(lo)
		if err != nil {
			return 0, err
		}
		atLo := of(s)
		if i < steps && (atLo < target) != (atHi < target) {
			return bisect(target, lo, hi, atLo < atHi, func(x float64) (float64, error) {
				s, err := share(x)
				return of(s), err
			})
		}
		hi, atHi = lo, atLo
		low, high = min(low, atLo), max(high, atLo)
	}
	return 0, fmt.Errorf("%s: %v is out of reach here, %.3g to %.3g is not", name, target, low, high)
}

// bisect finds where at is target to 1e-4, between lo and hi.
func bisect(target, lo, hi float64, rising bool, at func(x float64) (float64, error)) (float64, error) {
	for range 40 {
		mid := (lo + hi) / 2
		v, err := at(mid)
		if err != nil || math.Abs(v/target-1) < 1e-4 {
			return mid, err
		}
		if (v < target) == rising {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2, nil
}
