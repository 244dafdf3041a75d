package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/table/curate"
)

type lintFlags struct {
	from sourceFlags
	out  tableFlags
	band float64
	all  bool
}

func newTableLint() *cobra.Command {
	var f lintFlags
	cmd := &cobra.Command{
		Use:   "lint",
		Short: "Find rows that are illegal, unsupported or leave holes",
		Long: `Check tables before they are shipped. The exit code is 3 if there are errors,
and 0 if there are only warnings. The exit code is 2 if a table cannot be read, for
example because rows overlap, a row's first token count is above its last, or the file was
edited by hand. If many rows have the same warning, only a few of them and the number of
the others are printed; CSV and JSON have all.`,
		Example: `  epbench table lint --table run
  epbench table lint --table table.json --all
  epbench table lint --embedded`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.from.bind(cmd)
	flags(cmd, forTables, func(s *pflag.FlagSet) { bindBand(s, &f.band) })
	flags(cmd, forOutput, func(s *pflag.FlagSet) { s.BoolVar(&f.all, "all", false, "print every warning") })
	f.out.bind(cmd)
	return cmd
}

func (f *lintFlags) run(cmd *cobra.Command) error {
	set, err := f.from.open()
	if err != nil {
		return err
	}
	out := findingTable()
	bad := 0
	for _, w := range set.Warnings() {
		out.Warn("%v", w)
	}
	for _, s := range set.Sources() {
		bad += f.lint(&out, bandOf(f.band, s.Table.Header), s)
	}
	if err := f.out.print(cmd, out); err != nil || bad == 0 {
		return err
	}
	return withCode(exitWrong, fmt.Errorf("%d errors", bad))
}

// lint adds the findings about a table to out and returns the number of errors.
func (f *lintFlags) lint(out *reports.Table, band float64, s table.Source) int {
	legal := curate.Legality(legality(s.Table.Header.Machine))
	findings := append(changedLog(s), curate.Lint(s.Table, legal, band)...)
	errors := 0
	for _, x := range findings {
		if x.Severity == curate.Bad {
			errors++
		}
	}
	shown, more := findings, []string(nil)
	if !f.all && !f.out.forPrograms() {
		shown, more = firstWarnings(findings)
	}
	for _, x := range shown {
		out.Add(findingCells(s, x)...)
	}
	out.Note(more...)
	out.Note(fmt.Sprintf("%s: %d rows, %d errors, %d warnings", sourceName(s), len(s.Table.Rows), errors, len(findings)-errors))
	if legal == nil {
		out.Warn("this program does not know the kernels of backend %s: legality was not checked", s.Table.Header.Machine.Backend)
	}
	return errors
}

// changedLog returns a finding if the log of trials has changed since the table was made.
func changedLog(s table.Source) []curate.Finding {
	dir := filepath.Dir(s.Name)
	run, err := record.ReadRun(dir)
	if err != nil || filepath.Base(s.Name) != record.TableFile {
		return nil // the folder has no run
	}
	if err := record.CheckLog(dir, run, s.Table.Header.TrialLog); err != nil {
		return []curate.Finding{{Row: -1, Severity: curate.Bad, Rule: "log", Text: err.Error()}}
	}
	return nil
}

const warningsShown = 5 // for each rule

// firstWarnings returns all errors and the first warnings of each rule, and notes about the other warnings.
func firstWarnings(findings []curate.Finding) (shown []curate.Finding, more []string) {
	seen := map[string]int{}
	var full []string
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

func findingTable() reports.Table {
	return reports.Table{Name: "findings", Columns: append(append([]reports.Column{reports.Words("severity"), reports.Words("rule")},
		keyColumns()...), reports.Words("tokens"), reports.Words("finding"), reports.Words("source").Dropped(21).Keyed())}
}

func findingCells(s table.Source, f curate.Finding) []reports.Cell {
	severity := reports.Str(string(f.Severity))
	if f.Severity == curate.Bad {
		severity = severity.Marked(reports.Bad)
	}
	cells := []reports.Cell{severity, reports.Str(f.Rule)}
	if f.Row < 0 {
		cells = append(cells, slices.Repeat([]reports.Cell{reports.None()}, len(keyColumns())+1)...)
	} else {
		r := s.Table.Rows[f.Row]
		cells = append(append(cells, keyCells(r.Key)...), reports.Str(spanText(r.Lo, r.Hi)))
	}
	return append(cells, reports.Str(f.Text), reports.Str(sourceName(s)))
}
