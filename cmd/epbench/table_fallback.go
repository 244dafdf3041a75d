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
		Short: "Choose which rows answer for problems without a row of their own",
		Long: `If no row matches exactly, a look-up answers with the default, unless the table has a
fallback: key fields in which a row may differ. The command writes TABLE with another
fallback, or judges TABLE by recorded runs. To judge TABLE, the command looks up each
case of a run in a copy of TABLE. This copy has no rows with the shape of the case
(hidden size, experts and top-k). The command compares the answer with the times of the
run. Nothing is measured.

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
				return usagef("-o FILE is required, or a RUN to judge the table by")
			}
			return writeAndJudge(cmd, out, t, path, args[1:], bandOf(band, t.Header))
		},
	}
	flags(cmd, forTables, func(s *pflag.FlagSet) {
		s.StringVar(&fields, "fields", "", "`FIELDS` key fields in which a row may differ, in the order in which look-ups try them; known: "+strings.Join(table.FallbackFields(), ", ")+"; default: the table's own")
		bindBand(s, &band)
	})
	flags(cmd, forOutput, func(s *pflag.FlagSet) { s.StringVarP(&path, "out", "o", "", "`FILE` file to write") })
	out.bind(cmd)
	return cmd
}

func writeAndJudge(cmd *cobra.Command, out tableFlags, t *table.Table, path string, runs []string, band float64) error {
	loaded, err := loadRuns(cmd, runs)
	if err != nil {
		return err
	}
	for _, l := range loaded {
		if err := curate.Comparable(t.Header, headerOf(l)); err != nil {
			return withCode(exitNotComparable, fmt.Errorf("%s cannot judge this table: %w", l.Path, err))
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

// headerOf returns the fields of a run that must agree with a table's header.
func headerOf(l *reports.Loaded) table.Header {
	h := table.Header{Machine: l.Run.Machine, ABI: l.Run.ABI}
	if l.Table != nil {
		h.MaxSMs = l.Table.Header.MaxSMs
	}
	return h
}
