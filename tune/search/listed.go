package search

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// SpaceOf makes a space of given configs: that of pairs, and that of a
// recorded run. Kernels come in the order in which the configs name them.
func SpaceOf(configs []ep.Config) (*Space, error) {
	byKernel := map[string][]ep.Config{}
	var kernels []string
	for _, c := range configs {
		if byKernel[c.Kernel] == nil {
			kernels = append(kernels, c.Kernel)
		}
		byKernel[c.Kernel] = append(byKernel[c.Kernel], c)
	}
	var grids []Grid
	for _, k := range kernels {
		g, err := listed(byKernel[k])
		if err != nil {
			return nil, err
		}
		grids = append(grids, g)
	}
	s, _, err := NewSpace(grids...)
	return s, err
}

// listed makes a grid whose points are the given configs of one kernel. Its
// axes are the values found in them.
func listed(configs []ep.Config) (Grid, error) {
	g := Grid{Kernel: configs[0].Kernel, listed: []uint64{}}
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
