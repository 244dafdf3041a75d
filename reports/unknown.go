package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/table"
)

// UnknownShape is a table's answer for a case whose shape has no row.
type UnknownShape struct {
	Case   *Case
	Answer table.Answer
	Loss   float64 // answer's time / best time - 1; NaN if unmeasured
	Gain   float64 // default's time / answer's time; NaN if unmeasured
}

// UnknownShapes looks up each case in a copy of t that has no rows of the case's shape (hidden size, experts and
// top-k).
func UnknownShapes(t *table.Table, cases []*Case) []UnknownShape {
	var out []UnknownShape
	sets := map[[3]int]*table.Set{}
	for _, c := range cases {
		d := c.Default()
		if c.Search == nil || d == nil || !d.OK() {
			continue
		}
		p := c.Problem
		shape := [3]int{p.Hidden, p.Experts, p.TopK}
		if sets[shape] == nil {
			sets[shape] = table.Overlay(table.Source{Name: "table", Table: without(t, shape)})
		}
		u := UnknownShape{Case: c, Answer: sets[shape].Lookup(table.KeyOf(p, c.Search.Class), p.Tokens), Loss: math.NaN(), Gain: math.NaN()}
		if e := c.entryOf(u.Answer.Config); e != nil {
			u.Loss, u.Gain = max(0, e.Level/c.Best().Level-1), d.Level/e.Level
		}
		out = append(out, u)
	}
	return out
}

func without(t *table.Table, shape [3]int) *table.Table {
	out := *t
	out.Rows = slices.DeleteFunc(slices.Clone(t.Rows), func(r table.Row) bool {
		return [3]int{r.Key.Hidden, r.Key.Experts, r.Key.TopK} == shape
	})
	return &out
}

type unknownGroup struct {
	problem              ep.Problem // without shape and MaxTokens
	cases, shapes        int
	answered, unmeasured int // cases with an answer; answers without a time
	losses               []float64
	worst, least         UnknownShape
}

// UnknownShapeTable sums up answers for unknown shapes. `slower` is the number of rows in which an answer takes longer
// than the default by more than the band.
func UnknownShapeTable(all []UnknownShape, band float64) (t Table, slower int) {
	t = Table{Name: "unknown shapes", Title: "Answers for shapes without a row, judged by recorded runs", Columns: []Column{
		Words("op").Keyed(), Words("mode").Dropped(9).Keyed(), Words("dtype").Dropped(2).Keyed(), Numbers("ranks", "").Dropped(3).Keyed(), Words("precision").Keyed(), Numbers("tokens", "").Keyed(),
		Numbers("cases", ""), Numbers("shapes", "").Dropped(6), Numbers("answered", ""), Numbers("unmeasured", "").Dropped(7),
		Numbers("least gain", "x"), Numbers("median loss", "%"), Numbers("p90", "%"), Numbers("worst", "%"), Words("worst case").Dropped(8)}}
	for _, g := range groupUnknowns(all) {
		t.Add(g.cells()...)
		if g.least.Gain < 1/(1+band) {
			slower++
		}
	}
	t.Note(spreadOf(all), "Each case is looked up in the table without the rows of its own shape. answered: cases that some other row answers; unmeasured: answered cases whose run did not time the config of the answer",
		"least gain: the smallest (default's time / answer's time); loss: per cent by which the answer takes longer than the best config of the case")
	return t, slower
}

func spreadOf(all []UnknownShape) string {
	var losses []float64
	answered := 0
	for _, u := range all {
		if u.Answer.Row == nil {
			continue
		}
		answered++
		if !math.IsNaN(u.Loss) {
			losses = append(losses, 100*u.Loss)
		}
	}
	if len(losses) == 0 {
		return fmt.Sprintf("%d cases, %d answered by a row, none of them measured", len(all), answered)
	}
	return fmt.Sprintf("%d cases, %d answered by a row, %d of them measured: of these, half are within %.1f %% of the best, nine in ten within %.1f %%, 99 in 100 within %.1f %%",
		len(all), answered, len(losses), stat.Quantile(losses, 0.5), stat.Quantile(losses, 0.9), stat.Quantile(losses, 0.99))
}

func groupUnknowns(all []UnknownShape) []*unknownGroup {
	var out []*unknownGroup
	index := map[ep.Problem]*unknownGroup{}
	shapes := map[ep.Problem]bool{}
	for _, u := range all {
		p := u.Case.Problem
		id := p
		id.Hidden, id.Experts, id.TopK, id.MaxTokens = 0, 0, 0, 0
		g := index[id]
		if g == nil {
			g = &unknownGroup{problem: id, worst: UnknownShape{Loss: math.NaN()}, least: UnknownShape{Gain: math.NaN()}}
			index[id] = g
			out = append(out, g)
		}
		if !shapes[p] {
			shapes[p] = true
			g.shapes++
		}
		g.add(u)
	}
	slices.SortStableFunc(out, func(a, b *unknownGroup) int {
		return cmp.Or(compareShape(a.problem, b.problem), cmp.Compare(a.problem.Tokens, b.problem.Tokens))
	})
	return out
}

func (g *unknownGroup) add(u UnknownShape) {
	g.cases++
	if u.Answer.Row == nil {
		return
	}
	g.answered++
	if math.IsNaN(u.Loss) {
		g.unmeasured++
		return
	}
	g.losses = append(g.losses, u.Loss)
	if math.IsNaN(g.worst.Loss) || u.Loss > g.worst.Loss {
		g.worst = u
	}
	if math.IsNaN(g.least.Gain) || u.Gain < g.least.Gain {
		g.least = u
	}
}

func (g *unknownGroup) cells() []Cell {
	p := g.problem
	out := []Cell{Str(string(p.Op)), Str(string(p.Mode)), Str(string(p.Dispatch)), Int(p.Ranks), Str(p.Precision.String()), Int(p.Tokens),
		Int(g.cases), Int(g.shapes), Int(g.answered), Int(g.unmeasured)}
	if len(g.losses) == 0 {
		return append(out, None(), None(), None(), None(), None())
	}
	w := g.worst.Case.Problem
	return append(out, Float(g.least.Gain, 2), Percent(stat.Quantile(g.losses, 0.5)), Percent(stat.Quantile(g.losses, 0.9)), Percent(g.worst.Loss),
		Str(fmt.Sprintf("%d/%d/%d %s", w.Hidden, w.Experts, w.TopK, g.worst.Case.Routing)))
}
