package workloads

import (
	"fmt"
	"math"
)

// loadLaw is a distribution of routings that gives each expert a relative load. The loads depend on
// one parameter. The user gives the parameter, or a target for a statistic of the loads, such as
// their Gini coefficient.
type loadLaw struct {
	load      func(s drawRequest, x float64) ([]float64, error) // [experts] relative loads, in any order
	param     param
	x         float64                 // parameter, or target if statistic is not ""
	statistic string                  // statistic with a target, or ""
	urn       bool                    // draw with type urn, otherwise with type poisson
	fixed     bool                    // same order of loads for every seed
	show      func(x float64) float64 // converts a computed x for display; may be nil
}

func (f loadLaw) law(r *recipe) { r.law, r.loadLaw = f.prepare, &f }

func (f loadLaw) prepare(s drawRequest) (filler, error) {
	x, err := f.solve(s)
	if err != nil {
		return nil, err
	}
	load, err := f.load(s, x)
	if err != nil {
		return nil, err
	}
	if !f.urn {
		load = shares(load, s.TopK)
	}
	if !f.fixed {
		load = scatter(load, s.seed)
	}
	if f.urn {
		return eachToken(newUrn(load).draw), nil
	}
	return eachToken(newPoisson(load, s.TopK).draw), nil
}

func (f loadLaw) shares(s drawRequest, x float64) ([]float64, error) {
	load, err := f.load(s, x)
	if err != nil {
		return nil, err
	}
	if f.urn {
		return newUrn(load).shares(s.TopK), nil
	}
	return shares(load, s.TopK), nil
}

func (f loadLaw) solve(s drawRequest) (float64, error) {
	if f.statistic == "" {
		return f.x, nil
	}
	return solve(f.statistic, f.x, f.param, func(x float64) ([]float64, error) { return f.shares(s, x) })
}

func scatter(v []float64, seed uint64) []float64 {
	out := make([]float64, len(v))
	for j, e := range newRNG(seed, streamHot).perm(len(v)) {
		out[e] = v[j]
	}
	return out
}

// solve returns the largest value of the parameter p at which a statistic of the expected loads has
// the target value. If no value reaches the target, the error says which targets can be reached.
func solve(name string, target float64, p param, share func(x float64) ([]float64, error)) (float64, error) {
	const steps = 16
	of, low, high := findStatistic(name).of, math.Inf(1), math.Inf(-1)
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
	return 0, fmt.Errorf("%s: %v is out of reach here; use %.3g to %.3g", name, target, low, high)
}

// bisect solves at(x) = target between lo and hi, to 0.01 %. `rising` says whether at(x) rises with
// x.
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
