package workloads

import (
	"fmt"
	"math"
)

// loadLaw is a distribution of routings that gives each expert a relative load. The loads depend on one parameter. The
// user gives the parameter, or a target: the value that a statistic of the loads, such as their Gini coefficient, must
// have. The seed decides which expert gets which load.
type loadLaw struct {
	load      func(s drawRequest, x float64) ([]float64, error) // [experts] relative loads, in any order
	param     param                                             // name and bounds of the parameter
	x         float64                                           // the value of the parameter, or the target if statistic is not ""
	statistic string                                            // name of the statistic that has a target, or ""
	urn       bool                                              // true: experts are drawn by type urn, with the loads as weights; false: by type poisson
	fixed     bool                                              // true: the seed does not change which expert gets which load
	show      func(x float64) float64                           // converts a computed x to the scale on which the user gives the parameter; nil if it is the same
}

// law makes f the distribution of a recipe.
func (f loadLaw) law(r *recipe) { r.law, r.loadLaw = f.prepare, &f }

// prepare returns the filler that draws the experts of each token.
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

// shares returns the probability with which a token selects each expert; their sum is top-k.
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

// solve returns the value of the parameter. If the user gave a target, it computes the value from the target.
func (f loadLaw) solve(s drawRequest) (float64, error) {
	if f.statistic == "" {
		return f.x, nil
	}
	return solve(f.statistic, f.x, f.param, func(x float64) ([]float64, error) { return f.shares(s, x) })
}

// scatter returns v in an order that depends on the seed.
func scatter(v []float64, seed uint64) []float64 {
	out := make([]float64, len(v))
	for j, e := range newRNG(seed, streamHot).perm(len(v)) {
		out[e] = v[j]
	}
	return out
}

// solve finds the largest value of the parameter p for which a statistic of the expected loads has
// the target value. If there is no such value, the error says which values the statistic can have.
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

// bisect finds an x between lo and hi for which at(x) differs from target by less than 0.01 %.
// `rising` says whether at(x) rises with x.
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
