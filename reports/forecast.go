package reports

import "github.com/epbench/epbench/tune/record"

// Forecast returns the table of a run whose times are predicted, not measured.
func Forecast(run *record.Run) Table {
	cases := make([]*Case, len(run.Searches))
	for i := range run.Searches {
		s := &run.Searches[i]
		cases[i] = &Case{Problem: s.Problem, Routing: s.Routing, Seed: run.Seed, Search: s}
	}
	p := ColumnsFor(cases)
	t := Table{Name: "predicted", Title: "Times of one call, the slowest rank's", Columns: append(p.Columns, Numbers("predicted", "us"))}
	for _, c := range cases {
		t.Add(append(p.Cells(c), Micros(c.Search.Times.Median))...)
	}
	t.Note(p.Shared)
	return t
}
