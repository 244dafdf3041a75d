package reports

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/stat"
)

// Effect holds how much slower the best config with one value of a parameter is than the best config of the kernel.
type Effect struct {
	Kernel string
	Param  string
	Value  ep.Value
	Best   float64 // geometric mean over cases: best time with the value / kernel's best time
	Worst  float64 // largest of these ratios
	Median float64 // median over configs: time / kernel's best time
	Wins   int     // cases won with the value
	Cases  int     // cases with a timed config
	Points int     // timed configs of all cases

	logs float64   // sum of logarithms for Best
	all  []float64 // ratios for Median
}

// Effects computes the effect of each value. It leaves out parameters with only one value.
func Effects(cases []*Case) []Effect {
	sums := map[paramValue]*Effect{}
	for _, c := range cases {
		byKernel := map[string][]*Entry{}
		for _, e := range c.Entries {
			if e.Timed() && e.Level > 0 {
				byKernel[e.Config.Kernel] = append(byKernel[e.Config.Kernel], e)
			}
		}
		for kernel, entries := range byKernel {
			addEffects(sums, kernel, entries)
		}
	}
	keys := slices.SortedFunc(maps.Keys(sums), paramValue.compare)
	var out []Effect
	for _, k := range keys {
		if alternatives(keys, k) {
			e := sums[k]
			e.Best, e.Median, e.Points = math.Exp(e.logs/float64(e.Cases)), stat.Median(e.all), len(e.all)
			out = append(out, *e)
		}
	}
	return out
}

type paramValue struct {
	kernel, param string
	value         ep.Value
}

func (a paramValue) compare(b paramValue) int {
	return cmp.Or(strings.Compare(a.kernel, b.kernel), strings.Compare(a.param, b.param), CompareValues(a.value, b.value))
}

// CompareValues orders numbers by size and words by spelling.
func CompareValues(a, b ep.Value) int {
	x, number := a.Int()
	y, both := b.Int()
	if number && both {
		return cmp.Compare(x, y)
	}
	return strings.Compare(string(a), string(b))
}

func alternatives(keys []paramValue, k paramValue) bool {
	return slices.ContainsFunc(keys, func(o paramValue) bool {
		return o.kernel == k.kernel && o.param == k.param && o.value != k.value
	})
}

// addEffects adds a case's entries of one kernel, which must come fastest first.
func addEffects(sums map[paramValue]*Effect, kernel string, entries []*Entry) {
	best := entries[0].Level
	seen := map[paramValue]bool{}
	for i, e := range entries {
		over := e.Level / best
		for name, v := range e.Config.Values {
			k := paramValue{kernel, name, v}
			s := sums[k]
			if s == nil {
				s = &Effect{Kernel: kernel, Param: name, Value: v}
				sums[k] = s
			}
			s.all = append(s.all, over)
			if seen[k] {
				continue
			}
			seen[k] = true
			s.Cases++
			s.logs += math.Log(over)
			s.Worst = max(s.Worst, over)
			if i == 0 {
				s.Wins++
			}
		}
	}
}

// EffectsTable returns Effects as a table.
func EffectsTable(cases []*Case) Table {
	t := Table{
		Name: "effects", Title: "Per-parameter effects: what each value costs",
		Columns: []Column{
			Words("kernel"), Words("parameter"), Numbers("value", ""), Numbers("best with it", "%"), Numbers("worst case", "%"),
			Numbers("typical", "%").Dropped(2), Numbers("wins", ""), Numbers("cases", "").Dropped(1), Numbers("configs", "").Dropped(3),
		},
		Notes: []string{"Time lost against the kernel's fastest config in the same case. Column \"best with it\": the loss of the best config that has the value, as the mean over cases. Column \"worst case\": the largest such loss in one case. Column \"typical\": the median loss of all configs that have the value."},
	}
	for _, e := range Effects(cases) {
		t.Add(Str(e.Kernel), Str(e.Param), valueCell(e.Value), Percent(e.Best-1), Percent(e.Worst-1), Percent(e.Median-1),
			Int(e.Wins), Int(e.Cases), Int(e.Points))
	}
	return t
}

func valueCell(v ep.Value) Cell {
	if n, ok := v.Int(); ok {
		return Int(n)
	}
	return Str(string(v))
}
