package workloads

import (
	"fmt"
	"math"
)

// loadLaw is a law with one parameter, x, which says how unequally experts are
// wanted. The law gives loads by popularity; the seed decides which expert has
// which.
type loadLaw struct {
	load      func(s drawRequest, x float64) ([]float64, error) // [experts] relative loads, in any order
	param     param                                             // of x
	x         float64                                           // value of x, or of the statistic
	statistic string                                            // statistic that x is solved for; "" where x is given
	urn       bool                                              // loads are weights of draws one by one, not shares; see urn, poisson
	fixed     bool                                              // load[e] is of expert e: nothing is left to the seed
	show      func(x float64) float64                           // x as people write it, where it is solved on another scale
}

// law makes a recipe draw from f.
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

// shares is how often a token selects each expert, [experts], with sum top-k.
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

// solve is x, found for the target where there is one.
func (f loadLaw) solve(s drawRequest) (float64, error) {
	if f.statistic == "" {
		return f.x, nil
	}
	return solve(f.statistic, f.x, f.param, func(x float64) ([]float64, error) { return f.shares(s, x) })
}

// scatter gives the j-th value to the j-th expert of a random order.
func scatter(v []float64, seed uint64) []float64 {
	out := make([]float64, len(v))
	for j, e := range newRNG(seed, streamHot).perm(len(v)) {
		out[e] = v[j]
	}
	return out
}

// solve finds the value of p at which a statistic of the expected shares has
// the target value, and the largest such value where there are several. The
// error says which values the statistic can have.
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

// bisect finds an x between lo and hi where at(x) is target, to 1e-4.
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
