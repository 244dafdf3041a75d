package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/epbench/epbench/kernels/conform"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

type setting struct {
	kernel, param string
	value         ep.Value
}

func parameterTable(results []conform.Result) reports.Table {
	t := reports.Table{Name: "parameters", Title: "Configs that ran with each parameter value", Columns: []reports.Column{
		reports.Words("kernel"), reports.Words("parameter"), reports.Words("value: configs, failed after /"),
	}, Notes: []string{"value: configs: each value with the number of configs that ran with it; if some of them failed, their number follows after /"}}
	ran, failed := map[setting]int{}, map[setting]int{}
	for _, r := range results {
		for _, o := range r.Trials {
			for _, s := range settings(r.Case.Problem.Op, o.Config) {
				ran[s]++
				if o.Status != ep.OK {
					failed[s]++
				}
			}
		}
	}
	all := slices.SortedFunc(maps.Keys(ran), compareSettings)
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(s setting) bool { return s.kernel != all[0].kernel || s.param != all[0].param })
		if n < 0 {
			n = len(all)
		}
		t.Add(reports.Str(all[0].kernel), reports.Str(all[0].param), reports.Str(countsOf(all[:n], ran, failed)))
		all = all[n:]
	}
	return t
}

func settings(op ep.Op, c ep.Config) []setting {
	of := []ep.Config{c}
	if d, k, err := ep.Split(c); op == ep.Pair && err == nil {
		of = []ep.Config{d, k}
	}
	var out []setting
	for _, c := range of {
		for _, name := range c.Names() {
			out = append(out, setting{c.Kernel, name, c.Values[name]})
		}
	}
	return out
}

func compareSettings(a, b setting) int {
	x, xn := a.value.Int()
	y, yn := b.value.Int()
	byValue := cmp.Compare(a.value, b.value)
	if xn && yn {
		byValue = cmp.Compare(x, y)
	}
	return cmp.Or(cmp.Compare(a.kernel, b.kernel), cmp.Compare(a.param, b.param), byValue)
}

func countsOf(of []setting, ran, failed map[setting]int) string {
	var out []string
	for _, s := range of {
		text := fmt.Sprintf("%s: %d", s.value, ran[s])
		if failed[s] > 0 {
			text += fmt.Sprintf("/%d", failed[s])
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}
