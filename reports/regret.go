package reports

import (
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// RegretTable lists what each routing's winner loses under each routing. The minimax row has the config whose largest
// loss is the smallest.
func RegretTable(run *record.Run) Table {
	var cases []*Case
	var routings []string
	for _, r := range run.Regrets {
		for _, row := range r.Rows {
			cases = append(cases, &Case{Problem: r.Problem, Routing: row.Routing, Seed: run.Seed})
		}
		for _, name := range r.Routings {
			if !slices.Contains(routings, name) {
				routings = append(routings, name)
			}
		}
	}
	p := ColumnsFor(cases)
	t := Table{Name: "regret", Title: "Regret: what each winner loses under every routing", Columns: p.Columns}
	t.Columns[slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == "routing" })].Name = "winner of"
	t.Columns = append(t.Columns, ConfigColumns()...)
	for _, name := range append(routings, "worst") {
		t.Columns = append(t.Columns, Numbers(name, "%"))
	}
	for _, r := range run.Regrets {
		for _, row := range r.Rows {
			cells := append(p.Cells(cases[0]), ConfigCells(row.Config, defaultOf(run, r.Problem))...)
			for _, name := range routings {
				cells = append(cells, lossCell(row, slices.Index(r.Routings, name)))
			}
			t.Add(append(cells, Percent(float64(row.Worst)))...)
			cases = cases[1:]
		}
	}
	t.Note(p.Shared, "Per cent by which a call takes longer than with the best config under the routing of the column (the best config may be unconfirmed). -: the config was not measured under this routing, or failed.",
		"all: the minimax config, whose largest loss is the smallest. The launch table has it in the rows for all routings.")
	t.Note(defaults(run)...)
	return t
}

func lossCell(row record.RegretRow, at int) Cell {
	if at < 0 {
		return None()
	}
	return Percent(float64(row.Loss[at]))
}

func defaultOf(run *record.Run, p ep.Problem) ep.Config {
	for _, s := range run.Searches {
		if s.Problem == p {
			return s.Decision.Default
		}
	}
	return ep.Config{}
}
