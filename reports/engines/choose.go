package engines

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

var errNoPair = errors.New("the run has no dispatch config and combine config that fit each other and were measured at the same token count and routing; sweep with --strategy grid, or with fewer --param values")

type configPair struct {
	dispatch, combine ep.Config
	regret            []float64 // at each point: how much longer than the best pair, as a fraction; NaN if not measured
}

type extremes struct{ fastest, slowest float64 } // seconds of a point's pairs

// choose returns the fitting pair of least weighted regret. At a point where a pair was not measured, choose takes the
// slowest pair's time. It returns the pair of defaults if the mean regret of this pair is at most `band` larger than
// the least mean regret. Among many equal pairs, some pair looks faster by chance.
func choose(all []measuredPoint, band float64, fits func(dispatch, combine ep.Config) bool) (configPair, error) {
	at := make([]extremes, len(all))
	for i, s := range all {
		at[i] = extremesAt(s, fits)
	}
	best, least := configPair{}, math.Inf(1)
	for _, x := range configs(all, func(s measuredPoint) map[string]float64 { return s.dispatch }) {
		for _, y := range configs(all, func(s measuredPoint) map[string]float64 { return s.combine }) {
			if !fits(x, y) {
				continue
			}
			if sum, regret := judge(all, at, x, y); sum < least {
				best, least = configPair{x, y, regret}, sum
			}
		}
	}
	if math.IsInf(least, 1) {
		return best, errNoPair
	}
	if own, sum := defaults(all, at); sum-least <= band*weights(all) && fits(own.dispatch, own.combine) {
		return own, nil
	}
	return best, nil
}

// defaults returns the pair of defaults and its weighted regret, infinite if the pair was not measured at every point.
func defaults(all []measuredPoint, at []extremes) (configPair, float64) {
	x, errX := ep.ParseConfig(all[0].own.dispatch)
	y, errY := ep.ParseConfig(all[0].own.combine)
	if errX != nil || errY != nil {
		return configPair{}, math.Inf(1)
	}
	sum, regret := judge(all, at, x, y)
	if slices.ContainsFunc(regret, math.IsNaN) {
		sum = math.Inf(1)
	}
	return configPair{x, y, regret}, sum
}

func weights(all []measuredPoint) (sum float64) {
	for _, s := range all {
		sum += s.weight
	}
	return sum
}

// judge returns a pair's regrets and their weighted sum, infinite if the pair was measured at no point.
func judge(all []measuredPoint, at []extremes, x, y ep.Config) (sum float64, regret []float64) {
	regret, measured := make([]float64, len(all)), false
	for i, s := range all {
		d, c := s.dispatch[x.Key()], s.combine[y.Key()]
		switch {
		case d > 0 && c > 0:
			regret[i], measured = (d+c)/at[i].fastest-1, true
			sum += s.weight * regret[i]
		default:
			regret[i] = math.NaN()
			if at[i].fastest > 0 {
				sum += s.weight * (at[i].slowest/at[i].fastest - 1)
			}
		}
	}
	if !measured {
		sum = math.Inf(1)
	}
	return sum, regret
}

// extremesAt returns the times of the fastest and the slowest fitting pair, 0 if no pair fits.
func extremesAt(s measuredPoint, fits func(dispatch, combine ep.Config) bool) (r extremes) {
	for _, x := range configs([]measuredPoint{s}, func(s measuredPoint) map[string]float64 { return s.dispatch }) {
		for _, y := range configs([]measuredPoint{s}, func(s measuredPoint) map[string]float64 { return s.combine }) {
			if !fits(x, y) {
				continue
			}
			t := s.dispatch[x.Key()] + s.combine[y.Key()]
			if r.slowest = max(r.slowest, t); r.fastest == 0 || t < r.fastest {
				r.fastest = t
			}
		}
	}
	return r
}

// configs lists the measured configs of one op, sorted by key. `half` returns the op's times at a point.
func configs(all []measuredPoint, half func(measuredPoint) map[string]float64) []ep.Config {
	var out []ep.Config
	seen := map[string]bool{}
	for _, s := range all {
		for key := range half(s) {
			if c, err := ep.ParseConfig(key); err == nil && !seen[key] {
				out, seen[key] = append(out, c), true
			}
		}
	}
	slices.SortFunc(out, func(a, b ep.Config) int { return strings.Compare(a.Key(), b.Key()) })
	return out
}

func (p configPair) losses(all []measuredPoint) []string {
	var out, unknown []string
	for i, s := range all {
		if math.IsNaN(p.regret[i]) {
			unknown = append(unknown, s.String())
			continue
		}
		out = append(out, fmt.Sprintf("%s: %.1f %% slower than the best config there", s, 100*p.regret[i]))
	}
	if len(unknown) > 0 {
		out = append(out, fmt.Sprintf("warning: dispatch %s with combine %s was not measured with %s; its time there is taken as that of the slowest measured config; sweep --strategy grid measures every config",
			short(p.dispatch), short(p.combine), strings.Join(unknown, "; ")))
	}
	return out
}

func short(c ep.Config) string {
	_, values, _ := strings.Cut(c.Key(), ":")
	return values
}
