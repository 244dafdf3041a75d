package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/table/curate"
)

func newTableRelax() *cobra.Command {
	var out tableFlags
	var order, path string
	var band float64
	cmd := &cobra.Command{
		Use:   "relax TABLE [RUN...]",
		Short: "Let look-ups give up fields, and judge by runs what unknown shapes get",
		Long: `Without a row that matches, a look-up answers with the default, unless the table says
which fields may be given up. Write TABLE so that it does, and judge it by recorded runs:
each of their cases is asked of the table without the rows of that case's shape, and
the answer is held against what the run measured. Nothing is measured. Exit code 3
means that an answer was slower than the default by more than the band, 5 that a run is
of another machine or other kernels.`,
		Example: "  epbench table relax table.json RUN1 RUN2 --give-up routing,top_k,experts,hidden -o relaxed.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := loadTable(args[0], false)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("give-up") {
				if t, err = curate.SetFallback(t, splitList(order)); err != nil {
					return usagef("--give-up: %w", err)
				}
			}
			if path == "" && len(args) == 1 {
				return usagef("-o: where to write the table? or name runs to judge it by")
			}
			return relaxAndJudge(cmd, out, t, path, args[1:], bandOf(cmd, band, t.Header))
		},
	}
	s := cmd.Flags()
	s.StringVar(&order, "give-up", "", "fields that look-ups may give up, in this order: some of "+strings.Join(table.FallbackFields(), ", ")+"; default: the table's own")
	s.StringVarP(&path, "out", "o", "", "file to write")
	bindBand(cmd, &band)
	out.bind(cmd)
	return cmd
}

// relaxAndJudge writes the table where a path was given and prints how it fares on runs.
func relaxAndJudge(cmd *cobra.Command, out tableFlags, t *table.Table, path string, runs []string, band float64) error {
	loaded, err := loadRuns(cmd, runs)
	if err != nil {
		return err
	}
	for _, l := range loaded {
		if err := curate.Comparable(t.Header, headerOf(l)); err != nil {
			return withCode(exitNotComparable, fmt.Errorf("%s says nothing of this table: %w", l.Path, err))
		}
	}
	order := "look-ups give up nothing"
	if len(t.Header.Fallback) > 0 {
		order = "look-ups give up, in this order: " + strings.Join(t.Header.Fallback, ", ")
	}
	if path != "" {
		if err := table.WriteFile(path, t); err != nil {
			return badInput(fmt.Errorf("-o: %w", err))
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s; %s\n", path, order)
	}
	if len(runs) == 0 {
		return nil
	}
	var all []reports.Unknown
	for _, l := range loaded {
		all = append(all, reports.Unknowns(t, l.Cases)...)
	}
	table, slower := reports.UnknownTable(all, band)
	table.Notes = append(table.Notes, order)
	if err := out.print(cmd, table); err != nil || slower == 0 {
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
