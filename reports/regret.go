package reports

import (
	"fmt"
	"strings"

	"github.com/epbench/epbench/tune/record"
)

// RegretTable prints one matrix.
func RegretTable(r record.Regret) Table {
	t := Table{
		Name:    fmt.Sprintf("regret-%s-%d", r.Problem.Op, r.Problem.Tokens),
		Title:   fmt.Sprintf("Regret: %s, %d tokens, %s", r.Problem.Op, r.Problem.Tokens, Shape(r.Problem)),
		Columns: []Column{Words("tuned for")},
		Notes:   []string{"Time lost by launching the row's config under the column's routing; - failed or was not measured there."},
	}
	for _, name := range r.Routings {
		t.Columns = append(t.Columns, Numbers(name, "%"))
	}
	t.Columns = append(t.Columns, Numbers("worst", "%"))
	for _, row := range r.Rows {
		cells := []Cell{Str(row.Routing)}
		for _, l := range append(row.Loss, row.Worst) {
			cells = append(cells, Percent(float64(l)))
		}
		t.Add(cells...)
	}
	t.Note("all, the config that loses least in the worst case: " + strings.ReplaceAll(r.Minimax().Config.Key(), ",", ", "))
	return t
}
