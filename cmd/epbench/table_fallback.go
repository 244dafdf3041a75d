package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/table/curate"
)

func newTableFallback() *cobra.Command {
	var out tableFlags
	var fields, path string
	var band float64
	cmd := &cobra.Command{
		Use:   "fallback TABLE [RUN...]",
		Short: "Choose how problems without a row are answered; judge it by runs",
		Long: `Without a row that matches exactly a look-up answers with the default, unless the
table has a fallback: key fields in which a row may differ. Write TABLE with
another fallback, and judge it by recorded runs: each of their cases is asked of
the table without the rows of that case's shape, and the answer is compared with
what the run measured. Nothing is measured.

Exit code 3: an answer was slower than the default by more than the band. Exit
code 5: a run is of another machine or other kernels.`,
		Example: `  epbench table fallback table.json --fields routing,top_k,hidden -o wide.json
  epbench table fallback wide.json run1 run2
  epbench table fallback wide.json --fields '' -o strict.json`,
		Args: minArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := loadTable(args[0], false)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("fields") {
				t.Header.Fallback = splitList(fields)
				if err := t.Seal(); err != nil {
					return usagef("--fields: %w", err)
				}
			}
			if path == "" && len(args) == 1 {
				return usagef("-o FILE is required, or runs to judge the table by")
			}
			return writeAndJudge(cmd, out, t, path, args[1:], bandOf(band, t.Header))
		},
	}
	flags(cmd, forTables, func(s *pflag.FlagSet) {
		s.StringVar(&fields, "fields", "", "`FIELDS` in which a row may differ, the first one first: some of "+strings.Join(table.FallbackFields(), ", ")+"; default: the table's own")
		bindBand(s, &band)
	})
	flags(cmd, forOutput, func(s *pflag.FlagSet) { s.StringVarP(&path, "out", "o", "", "`FILE` to write") })
	out.bind(cmd)
	return cmd
}

// writeAndJudge writes the table where a path was given and prints how it does
// on runs.
func writeAndJudge(cmd *cobra.Command, out tableFlags, t *table.Table, path string, runs []string, band float64) error {
	loaded, err := loadRuns(cmd, runs)
	if err != nil {
		return err
	}
	for _, l := range loaded {
		if err := curate.Comparable(t.Header, headerOf(l)); err != nil {
			return withCode(exitNotComparable, fmt.Errorf("%s says nothing about this table: %w", l.Path, err))
		}
	}
	order := "no fallback: only exact rows answer"
	if len(t.Header.Fallback) > 0 {
		order = "fallback: a row may differ in " + strings.Join(t.Header.Fallback, ", ")
	}
	if path != "" {
		if err := writeOut(cmd, path, t); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s; %s\n", path, order)
	}
	if len(runs) == 0 {
		return nil
	}
	var all []reports.UnknownShape
	for _, l := range loaded {
		all = append(all, reports.UnknownShapes(t, l.Cases)...)
	}
	judged, slower := reports.UnknownShapeTable(all, band)
	judged.Note(order)
	if err := out.print(cmd, judged); err != nil || slower == 0 {
		return err
	}
	return withCode(exitWrong, fmt.Errorf("%d kinds of problem have an answer slower than the default", slower))
}

// headerOf is what decides whether a run can be compared with a table.
func headerOf(l *reports.Loaded) table.Header {
	h := table.Header{Machine: l.Run.Machine, ABI: l.Run.ABI}
	if l.Table != nil {
		h.MaxSMs = l.Table.Header.MaxSMs
	}
	return h
}
