package search

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// Listed makes a grid whose points are the given configs of one kernel, with
// the values found in them as its axes: the space of pairs, and that of a
// recorded run.
func Listed(configs []ep.Config) (Grid, error) {
	if len(configs) == 0 {
		return Grid{}, errors.New("space: no configs")
	}
	g := Grid{Kernel: configs[0].Kernel}
	values := map[string]map[ep.Value]bool{}
	for _, c := range configs {
		for n, v := range c.Values {
			if values[n] == nil {
				values[n] = map[ep.Value]bool{}
			}
			values[n][v] = true
		}
	}
	product := 1.0
	for _, n := range slices.Sorted(maps.Keys(values)) {
		g.Axes = append(g.Axes, Axis{n, sortedValues(values[n])})
		product *= float64(len(values[n]))
	}
	if product > 1<<62 {
		return Grid{}, fmt.Errorf("space: %s has too many parameters and values to number", g.Kernel)
	}
	for _, c := range configs {
		n, ok := g.number(c)
		if !ok {
			return Grid{}, fmt.Errorf("space: %s lacks a parameter that other configs of %s have", c.Key(), g.Kernel)
		}
		g.listed = append(g.listed, n)
	}
	slices.Sort(g.listed)
	g.listed = slices.Compact(g.listed)
	return g, nil
}

// sortedValues puts numbers before words, both ascending.
func sortedValues(set map[ep.Value]bool) []ep.Value {
	number := func(v ep.Value) float64 {
		if n, ok := v.Int(); ok {
			return float64(n)
		}
		return math.Inf(1)
	}
	return slices.SortedFunc(maps.Keys(set), func(a, b ep.Value) int {
		return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b))
	})
}
