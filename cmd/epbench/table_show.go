package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/table"
)

func newTableShow() *cobra.Command {
	var from sourceFlags
	var out tableFlags
	cmd := &cobra.Command{
		Use:   "show",
		Short: "List tables and their rows",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := from.open()
			if err != nil {
				return err
			}
			heads, rows := headerTable(), rowTable()
			for _, w := range set.Warnings() {
				heads.Warn("%v", w)
			}
			for _, s := range set.Sources() {
				addHeader(&heads, s)
				for i := range s.Table.Rows {
					addRow(&rows, s, &s.Table.Rows[i])
				}
			}
			if len(set.Sources()) == 0 {
				heads.Notes = append(heads.Notes, "no tables here: every look-up answers default; epbench sweep makes one")
				return out.print(cmd, heads)
			}
			return out.print(cmd, heads, rows)
		},
	}
	from.bind(cmd)
	out.bind(cmd)
	return cmd
}

func headerTable() reports.Table {
	return reports.Table{Name: "tables", Columns: []reports.Column{
		reports.Words("source"), reports.Words("id"), reports.Numbers("rows", ""), reports.Words("name"),
		reports.Words("machine").Dropped(2), reports.Words("abi").Dropped(1), reports.Words("created"),
		reports.Numbers("a/a", "%"), reports.Words("relax"), reports.Words("max SMs").Dropped(6), reports.Words("driver").Dropped(4),
		reports.Words("cuda").Dropped(3), reports.Words("tool").Dropped(5), reports.Words("edited"),
	}}
}

func addHeader(t *reports.Table, s table.Source) {
	h := s.Table.Header
	t.Add(reports.Str(s.Name), reports.Str(s.Table.ID[:12]), reports.Int(len(s.Table.Rows)), reports.Str(h.Machine.Name),
		reports.Str(h.Machine.Key()), reports.Str(h.ABI), reports.Str(h.Created.Format(time.RFC3339)),
		reports.Float(100*h.AA, 2), reports.Str(strings.Join(h.Fallback, " ")), reports.Str(boundText(h)), reports.Str(h.Machine.Driver),
		reports.Str(h.Machine.CUDA), reports.Str(h.Tool), reports.Bool(h.Edited))
}

func boundText(h table.Header) string {
	if h.MaxSMs == 0 {
		return "any"
	}
	return strconv.Itoa(h.MaxSMs)
}

func rowTable() reports.Table {
	columns := append(keyColumns(), reports.Words("tokens"), reports.Words("choice"), reports.Numbers("median", "us"))
	return reports.Table{Name: "rows", Columns: append(append(columns, gainColumns()...),
		reports.Numbers("rounds", "").Dropped(2), reports.Words("clock").Dropped(1), reports.Words("source").Dropped(11))}
}

func addRow(t *reports.Table, s table.Source, r *table.Row) {
	cells := append(keyCells(r.Key), reports.Str(spanText(r.Lo, r.Hi)), reports.Str(choiceText(r)), reports.Micros(r.Evidence.Median))
	t.Add(append(append(cells, gainCells(r)...), reports.Int(r.Evidence.Rounds), reports.Str(r.Evidence.Clock), reports.Str(s.Name))...)
}
