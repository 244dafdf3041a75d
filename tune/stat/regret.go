package stat

import (
	"maps"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// Effects maps config keys to log(the config's time / the default's time) under one routing.
type Effects map[string]float64

// Loss returns how much slower a config is than the best config, or NaN for an unmeasured config.
func (e Effects) Loss(key string) record.Loss {
	own, ok := e[key]
	if !ok {
		return record.Loss(math.NaN())
	}
	least := own
	for _, x := range e {
		least = min(least, x)
	}
	return record.Loss(math.Expm1(own - least))
}

// Worst returns the largest loss of a config over routings, or NaN if a routing lacks the config.
func Worst(under []Effects, key string) record.Loss {
	var worst record.Loss
	for _, e := range under {
		worst = max(worst, e.Loss(key))
	}
	return worst
}

// Minimax finds a config whose worst loss over routings is smallest. It returns the config's index and worst loss. Of
// configs that are equal within the band, it takes the first. If no config was measured under every routing, Minimax
// returns -1 and NaN.
func Minimax(under []Effects, keys []string, band float64) (index int, worst float64) {
	losses := make([]float64, len(keys))
	least := math.Inf(1)
	for i, key := range keys {
		if losses[i] = float64(Worst(under, key)); losses[i] < least { // false for NaN
			least = losses[i]
		}
	}
	index = slices.IndexFunc(losses, func(l float64) bool { return 1+l <= (1+least)*(1+band) })
	if index < 0 {
		return -1, math.NaN()
	}
	return index, losses[index]
}

// MeasuredEverywhere returns the sorted keys that were measured under every routing.
func MeasuredEverywhere(under []Effects) []string {
	if len(under) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(under[0])), func(key string) bool {
		return slices.ContainsFunc(under, func(e Effects) bool { _, ok := e[key]; return !ok })
	})
}

// TunedRouting holds the config chosen under one routing, and the effects of all configs under this routing.
type TunedRouting struct {
	Routing string
	Config  ep.Config
	Effects Effects
}

// NewRegret returns how much each routing's config loses under all routings. The last row is for `minimax`.
func NewRegret(p ep.Problem, tuned []TunedRouting, minimax ep.Config) record.Regret {
	r := record.Regret{Problem: p}
	var under []Effects
	for _, t := range tuned {
		r.Routings, under = append(r.Routings, t.Routing), append(under, t.Effects)
	}
	for _, t := range append(tuned[:len(tuned):len(tuned)], TunedRouting{Routing: string(ep.AllRoutings), Config: minimax}) {
		key := t.Config.Key()
		row := record.RegretRow{Routing: t.Routing, Config: t.Config, Worst: Worst(under, key)}
		for _, e := range under {
			row.Loss = append(row.Loss, e.Loss(key))
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}
