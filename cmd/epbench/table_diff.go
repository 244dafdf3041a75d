package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/table"
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
				[]reports.Column{reports.Words("tokens"), reports.Words("kind")}, sideColumns("a"), sideColumns("b"))}
			for _, d := range curate.Diff(a, b) {
				t.Add(slices.Concat(keyCells(d.Key), []reports.Cell{reports.Str(spanText(d.Lo, d.Hi)), reports.Str(string(d.Kind))},
					sideCells(a.Header, d.A), sideCells(b.Header, d.B))...)
			}
			t.Notes = headerDiff(a.Header, b.Header)
			if len(t.Rows) == 0 {
				t.Note("the rows are the same")
			}
			return out.print(cmd, t)
		},
	}
	flags(cmd, forTables, func(s *pflag.FlagSet) {
		s.BoolVar(&allowEdited, "allow-edited", false, "read tables although they were edited")
	})
	out.bind(cmd)
	return cmd
}

func headerDiff(a, b table.Header) []string {
	percent := func(f float64) string { return fmt.Sprintf("%.2f %%", 100*f) }
	var out []string
	for _, f := range []struct {
		name string
		of   func(table.Header) string
	}{
		{"tool", func(h table.Header) string { return h.Tool }},
		{"created", func(h table.Header) string { return h.Created.UTC().Format(time.RFC3339) }},
		{"machine", func(h table.Header) string { return h.Machine.Key() }},
		{"driver", func(h table.Header) string { return strings.TrimSpace(h.Machine.Driver + " " + h.Machine.CUDA) }},
		{"kernels", func(h table.Header) string { return h.ABI.Short() }},
		{"policy", func(h table.Header) string { return h.Policy }},
		{"A/A spread", func(h table.Header) string { return percent(h.AA) }},
		{"band", func(h table.Header) string { return percent(h.Band) }},
		{"max SMs", func(h table.Header) string { return fmt.Sprint(h.MaxSMs) }},
		{"hooks", func(h table.Header) string { return h.Hooks }},
		{"fallback", func(h table.Header) string { return orNone(h.Fallback) }},
		{"edited", func(h table.Header) string { return reports.Bool(h.Edited).Text }},
	} {
		if x, y := f.of(a), f.of(b); x != y {
			out = append(out, fmt.Sprintf("%s: a has %s, b has %s", f.name, orNone(nonEmpty(x)), orNone(nonEmpty(y))))
		}
	}
	return append(append(out, hashDiff("space", a.Space, b.Space)...), hashDiff("trial_log", a.TrialLog, b.TrialLog)...)
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// hashDiff compares a field of two tables. The field holds one hash for each run of a table. If a table has several
// hashes, hashDiff only counts the equal and the different ones.
func hashDiff(name, a, b string) []string {
	if a == b {
		return nil
	}
	x, y := strings.Split(a, " + "), strings.Split(b, " + ")
	if len(x)+len(y) == 2 {
		return []string{fmt.Sprintf("%s: a has %.12s, b has %.12s", name, a, b)}
	}
	both := 0
	for _, h := range x {
		if slices.Contains(y, h) {
			both++
		}
	}
	return []string{fmt.Sprintf("%s: %d in both, %d only in a, %d only in b", name, both, len(x)-both, len(y)-both)}
}
