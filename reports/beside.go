package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// BesideTable lists the winner and the default of each search that timed calls while a matrix product ran. `ok` is
// false if the run has no such search.
func BesideTable(run *record.Run) (t Table, ok bool) {
	cases := besideCases(run)
	p := ColumnsFor(cases).besideDropped()
	t = Table{Name: "beside", Title: "Time that a call adds to the product beside it", Columns: append(p.Columns, besideColumns()...)}
	for _, c := range cases {
		d, b := c.Search.Decision, c.Search.Beside
		t.Add(append(p.Cells(c), besideCells(d.Config.ID(), b.Config, b.Saved)...)...)
		if !d.KeepsDefault() {
			name := d.Default.ID()
			if c.Search.Reference == "" {
				name = "default"
			}
			t.Add(append(p.Cells(c), besideCells(name, b.Default, nil)...)...)
		}
		t.Note(fmt.Sprintf("%s: the part of the product that runs beside one call is %s", Title(c.Problem, c.Routing), b.Config.Amount))
	}
	t.Note(p.Shared, besideExplained)
	return t, len(cases) > 0
}

func besideCases(run *record.Run) (cases []*Case) {
	for i := range run.Searches {
		if s := &run.Searches[i]; s.Beside != nil {
			cases = append(cases, &Case{Problem: s.Problem, Routing: s.Routing, Seed: run.Seed, Search: s})
		}
	}
	return cases
}

// BesideTables lists the rows of BesideTable for several runs. Rows of the same case, from all runs, follow each
// other.
func BesideTables(runs []*record.Run) (t Table, ok bool) {
	var rows []besideRow
	for _, run := range runs {
		for _, c := range besideCases(run) {
			rows = append(rows, besideRowsOf(run, c)...)
		}
	}
	slices.SortStableFunc(rows, func(a, b besideRow) int {
		x, y := a.problem, b.problem
		return cmp.Or(compareShape(x, y), cmp.Compare(a.routing, b.routing), cmp.Compare(x.Tokens, y.Tokens))
	})
	cases := make([]*Case, len(rows))
	for i, r := range rows {
		cases[i] = &Case{Problem: r.problem, Routing: r.routing, Seed: r.seed}
	}
	p := ColumnsFor(cases).besideDropped()
	t = Table{Name: "beside", Title: "Time that a call adds to the product beside it, by library", Columns: append(append(p.Columns, Words("library"), Words("kernels").Dropped(8)), besideColumns()...)}
	for i, r := range rows {
		t.Add(append(append(p.Cells(cases[i]), Str(r.library), Str(r.config.Kernel)), r.cells...)...)
	}
	t.Note(besideNotes(rows)...)
	t.Note(p.Shared, besideExplained)
	return t, len(rows) > 0
}

type besideRow struct {
	problem ep.Problem
	routing string
	seed    uint64
	library string
	config  ep.Config
	work    string
	amount  string
	cells   []Cell
}

func besideRowsOf(run *record.Run, c *Case) []besideRow {
	d, b, p := c.Search.Decision, c.Search.Beside, c.Problem
	p.MaxTokens, p.Layout = max(p.Tokens, 1), "" // left out, because libraries differ in them
	row := func(cfg ep.Config, of record.Beside, saved *record.Interval) besideRow {
		w := run.Work(p.Op, cfg)
		return besideRow{p, c.Routing, c.Seed, cmp.Or(strings.TrimSpace(w.Library+" "+w.Version), run.Machine.Backend), cfg, w.Key(p), b.Config.Amount, besideCells(cfg.ID(), of, saved)}
	}
	if d.KeepsDefault() {
		return []besideRow{row(d.Config, b.Config, nil)}
	}
	return []besideRow{row(d.Config, b.Config, b.Saved), row(d.Default, b.Default, nil)}
}

func besideNotes(rows []besideRow) []string {
	var out []string
	for _, spell := range []func(besideRow) string{
		func(r besideRow) string { return r.config.ID() + ": " + r.config.Key() },
		func(r besideRow) string {
			return fmt.Sprintf("a call of %s, %s: %s", r.library, r.problem.Op, cmp.Or(r.work, "the run does not say what the call contains"))
		},
		func(r besideRow) string {
			return fmt.Sprintf("%s, %s: the part of the product that runs beside one call is %s", Title(r.problem, r.routing), r.library, r.amount)
		},
	} {
		for _, r := range rows {
			if s := spell(r); !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

const besideExplained = "both: the time of call and product together; cost: the time of call and product together, minus the product's time alone; saved: how much less time call and product take together than with the config of the row below, in the same rounds; low, high: 95 % intervals; done: share of the product that was done when the last call ended"

func (p ProblemColumns) besideDropped() ProblemColumns {
	for i, c := range p.Columns {
		if c.Name == "beside" {
			p.Columns[i] = c.Dropped(7)
		}
	}
	return p
}

func besideColumns() []Column {
	return []Column{Words("config").Keyed(), Numbers("call alone", "us"), Numbers("call beside", "us").Dropped(2),
		Numbers("product alone", "us").Dropped(5), Numbers("product beside", "us").Dropped(9), Numbers("slow-down", "%").Dropped(4), Numbers("both", "us").Dropped(6),
		Numbers("cost", "us"), Numbers("low", "us").Dropped(1), Numbers("high", "us").Dropped(1), Numbers("done", "%").Dropped(10),
		Numbers("saved", "us").Dropped(3), Numbers("saved low", "us").Dropped(8), Numbers("saved high", "us").Dropped(8)}
}

// besideCells returns the cells of one config. For the default, `saved` is nil.
func besideCells(name string, b record.Beside, saved *record.Interval) []Cell {
	cells := []Cell{Str(name), Micros(b.Call.Mid), Micros(b.CallIn.Mid), Micros(b.Product.Mid), Micros(b.ProductIn.Mid),
		Percent(b.Slowdown.Mid - 1), Micros(b.Both.Mid), Micros(b.Cost.Mid), Micros(b.Cost.Low), Micros(b.Cost.High), Percent(b.Done)}
	if saved == nil {
		return append(cells, None(), None(), None())
	}
	return append(cells, Micros(saved.Mid), Micros(saved.Low), Micros(saved.High))
}
