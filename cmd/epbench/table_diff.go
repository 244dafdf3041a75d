package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/table/curate"
)

func newTableDiff() *cobra.Command {
	var out tableFlags
	var allowEdited bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Show where two tables answer differently, token by token",
		Example: `  epbench table diff old.json new.json
  epbench table diff old.json run
  epbench table diff h200x4 run --format csv`,
		Args: exactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := loadTable(args[0], allowEdited)
			if err != nil {
				return err
			}
			b, err := loadTable(args[1], allowEdited)
			if err != nil {
				return err
			}
			t := reports.Table{Name: "differences", Columns: slices.Concat(keyColumns(),
				[]reports.Column{reports.Words("tokens"), reports.Words("kind").Dropped(2)}, sideColumns("a"), sideColumns("b"))}
			for _, d := range curate.Diff(a, b) {
				t.Add(slices.Concat(keyCells(d.Key), []reports.Cell{reports.Str(spanText(d.Lo, d.Hi)), reports.Str(string(d.Kind))},
					sideCells(a.Header, d.A), sideCells(b.Header, d.B))...)
			}
			t.Notes = curate.HeaderDiff(a.Header, b.Header)
			if len(t.Rows) == 0 {
				t.Note("the rows are the same")
			}
			return out.print(cmd, t)
		},
	}
	flags(cmd, forTables, func(s *pflag.FlagSet) {
		s.BoolVar(&allowEdited, "allow-edited", false, "take tables that were changed after they were written")
	})
	out.bind(cmd)
	return cmd
}
