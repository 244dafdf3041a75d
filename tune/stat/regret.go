package stat

import (
	"maps"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// Effects are the times of configs under one routing, by config key: the
// logarithm of the config's time over the default's. A config that failed, or
// was not measured, is missing.
type Effects map[string]float64

// Loss is what a config loses to the best one measured under the routing.
func (e Effects) Loss(key string) record.Loss {
	own, ok := e[key]
	if !ok {
		return record.Loss(math.NaN())
	}
	return record.Loss(math.Expm1(own - e.least()))
}

func (e Effects) least() float64 {
	least := math.Inf(1)
	for _, x := range e {
		least = min(least, x)
	}
	return least
}

// Worst is the largest loss of a config over routings, +Inf where it failed or
// was not measured under one of them.
func Worst(under []Effects, key string) float64 {
	worst := 0.0
	for _, e := range under {
		l := float64(e.Loss(key))
		if math.IsNaN(l) {
			return math.Inf(1)
		}
		worst = max(worst, l)
	}
	return worst
}

// Minimax finds the config that loses least in the worst case over routings.
// Within the band of the least the config that comes first in keys is taken:
// callers put what they prefer first. index is -1 when no config was measured
// everywhere.
func Minimax(under []Effects, keys []string, band float64) (index int, worst float64) {
	losses := make([]float64, len(keys))
	least := math.Inf(1)
	for i, key := range keys {
		losses[i] = Worst(under, key)
		least = min(least, losses[i])
	}
	for i, l := range losses {
		if !math.IsInf(l, 1) && 1+l <= (1+least)*(1+band) {
			return i, l
		}
	}
	return -1, math.Inf(1)
}

// Everywhere lists the keys that were measured under every routing, sorted.
func Everywhere(under []Effects) []string {
	if len(under) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(under[0])), func(key string) bool {
		return slices.ContainsFunc(under, func(e Effects) bool { _, ok := e[key]; return !ok })
	})
}

// Tuned is what was chosen under one routing, with the effects seen there.
type Tuned struct {
	Routing string
	Config  ep.Config
	Effects Effects
}

// NewRegret is the regret matrix of one problem. minimax is the config of the
// last row.
func NewRegret(p ep.Problem, tuned []Tuned, minimax ep.Config) record.Regret {
	r := record.Regret{Problem: p}
	for _, t := range tuned {
		r.Routings = append(r.Routings, t.Routing)
	}
	add := func(label string, c ep.Config) {
		row := record.RegretRow{Routing: label, Config: c}
		for _, t := range tuned {
			l := t.Effects.Loss(c.Key())
			row.Loss = append(row.Loss, l)
			if math.IsNaN(float64(row.Worst)) || math.IsNaN(float64(l)) {
				row.Worst = record.Loss(math.NaN())
			} else {
				row.Worst = max(row.Worst, l)
			}
		}
		r.Rows = append(r.Rows, row)
	}
	for _, t := range tuned {
		add(t.Routing, t.Config)
	}
	add(string(ep.AllRoutings), minimax)
	return r
}
