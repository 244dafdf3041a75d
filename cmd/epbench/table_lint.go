package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/table/curate"
)

func newTableLint() *cobra.Command {
	var from sourceFlags
	var out tableFlags
	var band float64
	var all bool
	cmd := &cobra.Command{
		Use:   "lint",
		Short: "Find rows that are illegal, unsupported or leave holes",
		Long: `Check a table before shipping it. Errors end with exit code 3, warnings with 0.
Overlaps, crossed intervals and edits are refused on reading, with exit code 2. Of
warnings that many rows share a few are printed, with their number; programs (csv,
json) get all.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := from.load()
			if err != nil {
				return err
			}
			legal := curate.Legality(legality(t.Header.Machine))
			findings := curate.Lint(t, legal, bandOf(cmd, band, t.Header))
			shown, more := findings, []string(nil)
			if !all && !out.forPrograms() {
				shown, more = firstWarnings(findings)
			}
			table, errors := findingTable(t, shown)
			table.Notes = append(more, fmt.Sprintf("%d rows: %d errors, %d warnings", len(t.Rows), errors, len(findings)-errors))
			if legal == nil {
				table.Warn("the kernels of backend %s are not known here: legality was not checked", t.Header.Machine.Backend)
			}
			if err := out.print(cmd, table); err != nil || errors == 0 {
				return err
			}
			return withCode(exitWrong, fmt.Errorf("%s: %d errors", tablePath(from.file), errors))
		},
	}
	from.bindFile(cmd)
	bindBand(cmd, &band)
	cmd.Flags().BoolVar(&all, "all", false, "print every warning")
	out.bind(cmd)
	return cmd
}

// warningsShown of a rule are printed.
const warningsShown = 5

// firstWarnings keeps all errors and of each rule's warnings the first; more says how many
// of which are left out, in the order in which the rules came.
func firstWarnings(findings []curate.Finding) (shown []curate.Finding, more []string) {
	seen := map[string]int{}
	var full []string // rules
	for _, f := range findings {
		if f.Severity != curate.Bad {
			seen[f.Rule]++
		}
		switch n := seen[f.Rule]; {
		case f.Severity == curate.Bad || n <= warningsShown:
			shown = append(shown, f)
		case n == warningsShown+1:
			full = append(full, f.Rule)
		}
	}
	for _, rule := range full {
		more = append(more, fmt.Sprintf("%s: %d more like these; --all prints them", rule, seen[rule]-warningsShown))
	}
	return shown, more
}

// findingTable lists findings and counts the errors among them.
func findingTable(t *table.Table, findings []curate.Finding) (out reports.Table, errors int) {
	out = reports.Table{Name: "findings", Columns: append([]reports.Column{reports.Words("severity"), reports.Words("rule")},
		append(keyColumns(), reports.Words("tokens"), reports.Words("finding"))...)}
	for _, f := range findings {
		severity := reports.Str(string(f.Severity))
		if f.Severity == curate.Bad {
			errors++
			severity = severity.Marked(reports.Bad)
		}
		cells := []reports.Cell{severity, reports.Str(f.Rule)}
		if f.Row < 0 {
			cells = append(cells, slices.Repeat([]reports.Cell{reports.None()}, len(keyColumns())+1)...)
		} else {
			r := t.Rows[f.Row]
			cells = append(append(cells, keyCells(r.Key)...), reports.Str(spanText(r.Lo, r.Hi)))
		}
		out.Add(append(cells, reports.Str(f.Text))...)
	}
	return out, errors
}
