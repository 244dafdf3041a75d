package reports

import (
	"fmt"

	"github.com/epbench/epbench/tune/record"
)

// BesideTable lists what a run measured beside products: of each search the config and
// the default. ok is false where nothing ran beside the calls.
func BesideTable(run *record.Run) (t Table, ok bool) {
	var cases []*Case
	for i := range run.Searches {
		if s := &run.Searches[i]; s.Beside != nil {
			cases = append(cases, &Case{Problem: s.Problem, Routing: s.Routing, Seed: run.Seed, Search: s})
		}
	}
	p := ColumnsFor(cases)
	t = Table{Name: "beside", Title: "What a call costs the product beside it", Columns: append(p.Columns,
		Words("config").Keyed(), Numbers("call alone", "us"), Numbers("call beside", "us").Dropped(2),
		Numbers("product alone", "us"), Numbers("product beside", "us").Dropped(3), Numbers("slow-down", "%"), Numbers("both", "us"),
		Numbers("cost", "us"), Numbers("low", "us").Dropped(1), Numbers("high", "us").Dropped(1), Numbers("done", "%").Dropped(4))}
	for _, c := range cases {
		d, b := c.Search.Decision, c.Search.Beside
		t.Add(append(p.Cells(c), besideCells(d.Config.ID(), b.Config)...)...)
		if !d.KeepsDefault() {
			name := d.Default.ID()
			if c.Search.Reference == "" {
				name = "default"
			}
			t.Add(append(p.Cells(c), besideCells(name, b.Default)...)...)
		}
		t.Note(fmt.Sprintf("%s: a call's share of the product is %s", Title(c.Problem, c.Routing), b.Config.Amount))
	}
	t.Note(p.Shared, "cost: the time of call and product together, less the product's alone, with its 95 % interval; done: share of the product that was done when the last call ended")
	return t, len(cases) > 0
}

func besideCells(name string, b record.Beside) []Cell {
	return []Cell{Str(name), Micros(b.Call.Mid), Micros(b.CallIn.Mid), Micros(b.Product.Mid), Micros(b.ProductIn.Mid),
		Percent(b.Slowdown.Mid - 1), Micros(b.Both.Mid), Micros(b.Cost.Mid), Micros(b.Cost.Low), Micros(b.Cost.High), Percent(b.Done)}
}
