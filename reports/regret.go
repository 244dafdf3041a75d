package reports

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// Regret is what it costs to ship one routing's choice under another.
type Regret struct {
	Problem  ep.Problem
	Routings []string    // of the cases, in their order
	Shipped  []string    // labels of the rows: each routing's choice, then the minimax one
	Keys     []string    // config keys of the rows
	Loss     [][]float64 // [row][routing]: time over the best under that routing, less 1; NaN where not measured
	Minimax  int         // row of the choice with the least worst loss, -1 when none was measured everywhere
}

// Regrets computes a matrix for every problem measured under at least two
// routings.
func Regrets(cases []*Case) []Regret {
	var out []Regret
	for _, group := range byProblem(cases) {
		if len(group) >= 2 {
			out = append(out, regretOf(group))
		}
	}
	return out
}

// byProblem groups cases that differ in their routing alone.
func byProblem(cases []*Case) [][]*Case {
	var groups [][]*Case
	index := map[ep.Problem]int{}
	for _, c := range cases {
		if c.Best() == nil {
			continue
		}
		i, ok := index[c.Problem]
		if !ok {
			i = len(groups)
			index[c.Problem] = i
			groups = append(groups, nil)
		}
		if !slices.ContainsFunc(groups[i], func(o *Case) bool { return o.Routing == c.Routing }) {
			groups[i] = append(groups[i], c)
		}
	}
	return groups
}

func regretOf(group []*Case) Regret {
	r := Regret{Problem: group[0].Problem, Minimax: -1}
	losses := make([]map[string]float64, len(group))
	for i, c := range group {
		r.Routings = append(r.Routings, c.Routing)
		losses[i] = lossByKey(c)
	}
	for _, c := range group {
		choice, _ := c.Choose()
		r.add(c.Routing, choice.Entry.Key, losses)
	}
	if key, _, ok := LeastWorst(losses); ok {
		r.Minimax = len(r.Shipped)
		r.add("any", key, losses)
	}
	return r
}

func (r *Regret) add(label, key string, losses []map[string]float64) {
	row := make([]float64, len(losses))
	for i, l := range losses {
		row[i] = math.NaN()
		if v, ok := l[key]; ok {
			row[i] = v
		}
	}
	r.Shipped, r.Keys, r.Loss = append(r.Shipped, label), append(r.Keys, key), append(r.Loss, row)
}

// lossByKey is each entry's level over the best of its case, less 1.
func lossByKey(c *Case) map[string]float64 {
	best := c.Best()
	out := map[string]float64{}
	for _, e := range c.Entries {
		if e.OK() && e.Role != record.Twin && e.Role != record.Peer {
			out[e.Key] = max(0, e.Level/best.Level-1)
		}
	}
	return out
}

// LeastWorst is the configuration with the least worst loss among those measured under
// every routing, and that loss; ties go to the smaller key. Each map is what
// configurations lose under one routing, by config key.
func LeastWorst(losses []map[string]float64) (key string, least float64, ok bool) {
	least = math.Inf(1)
	for k := range losses[0] {
		worst, everywhere := 0.0, true
		for _, l := range losses {
			v, measured := l[k]
			everywhere = everywhere && measured
			worst = max(worst, v)
		}
		if everywhere && (worst < least || worst == least && k < key) {
			key, least, ok = k, worst, true
		}
	}
	return key, least, ok
}

// Worst is the greatest loss of a row, NaN when it was not measured
// everywhere.
func (r *Regret) Worst(row int) float64 {
	worst := 0.0
	for _, v := range r.Loss[row] {
		if math.IsNaN(v) {
			return v
		}
		worst = max(worst, v)
	}
	return worst
}

// RegretTable prints one matrix.
func RegretTable(r Regret) Table {
	t := Table{
		Name:    "regret-" + string(r.Problem.Op) + fmt.Sprintf("-%d", r.Problem.Tokens),
		Title:   fmt.Sprintf("Regret: %s, %d tokens, %s", r.Problem.Op, r.Problem.Tokens, Shape(r.Problem)),
		Columns: []Column{Words("tuned for")},
		Notes:   []string{"Time lost by launching the row's choice under the column's routing; - was not measured there."},
	}
	for _, name := range r.Routings {
		t.Columns = append(t.Columns, Numbers(name, "%"))
	}
	t.Columns = append(t.Columns, Numbers("worst", "%"))
	for i, label := range r.Shipped {
		row := []Cell{Str(label)}
		for _, v := range r.Loss[i] {
			row = append(row, Percent(v))
		}
		t.Add(append(row, Percent(r.Worst(i)))...)
	}
	if r.Minimax >= 0 {
		t.Notes = append(t.Notes, "any, the minimax-regret choice: "+strings.ReplaceAll(r.Keys[r.Minimax], ",", ", "))
	}
	return t
}
