package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/table/curate"
)

func newTableMerge() *cobra.Command {
	var out tableFlags
	var path string
	var band float64
	cmd := &cobra.Command{
		Use:   "merge OLD NEW -o OUT",
		Short: "Lay new rows into a table; the incumbent stays unless clearly beaten",
		Long: `Write OLD with the rows of NEW. A token count that only one of them measured is that
one's. Where both did, OLD stays unless the gain of NEW is larger by more than the
band and their intervals are apart; or, when NEW is a run directory whose search
measured OLD's choice too, unless that is slower there by more than the band.
Between two, the row of the nearer one holds. Every decision is printed with the
evidence of both. What look-ups may give up is OLD's.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if path == "" {
				return usagef("-o: where to write the merged table?")
			}
			old, err := loadTable(args[0], false)
			if err != nil {
				return err
			}
			newcomer, err := loadTable(args[1], false)
			if err != nil {
				return err
			}
			band = bandOf(cmd, band, old.Header)
			measured, err := measuredIn(args[1])
			if err != nil {
				return err
			}
			merged, decisions, err := curate.Merge(old, newcomer, curate.Rule{Band: band, Measured: measured})
			if err != nil {
				return withCode(exitNotComparable, err)
			}
			if err := table.WriteFile(path, merged); err != nil {
				return badInput(fmt.Errorf("-o: %w", err))
			}
			t := decisionTable(decisions)
			t.Notes = append(t.Notes, fmt.Sprintf("%d rows of %s and %d of %s became %d in %s (band %g %%)",
				len(old.Rows), args[0], len(newcomer.Rows), args[1], len(merged.Rows), path, 100*band))
			if !slices.Equal(old.Header.Fallback, newcomer.Header.Fallback) {
				t.Notes = append(t.Notes, fmt.Sprintf("look-ups give up what %s says: %s; not what %s does: %s",
					args[0], strings.Join(old.Header.Fallback, ", "), args[1], strings.Join(newcomer.Header.Fallback, ", ")))
			}
			return out.print(cmd, t)
		},
	}
	cmd.Flags().StringVarP(&path, "out", "o", "", "file to write")
	bindBand(cmd, &band)
	out.bind(cmd)
	return cmd
}

func decisionTable(decisions []curate.Overlap) reports.Table {
	t := reports.Table{Name: "decisions", Columns: append(keyColumns(), reports.Words("tokens"), reports.Words("outcome"),
		reports.Words("old"), reports.Words("new"), reports.Words("old evidence").Dropped(2), reports.Words("new evidence").Dropped(1))}
	for _, d := range decisions {
		t.Add(append(keyCells(d.Key), reports.Str(spanText(d.Lo, d.Hi)), reports.Str(string(d.Effect)),
			reports.Str(choiceText(d.Old)), reports.Str(choiceText(d.New)),
			reports.Str(evidenceText(d.Old)), reports.Str(evidenceText(d.New)))...)
	}
	return t
}

// measuredIn looks up what configs took in a run, nil for a table without one.
func measuredIn(path string) (func(k table.Key, tokens int, routing string, c ep.Config) (float64, bool), error) {
	if tablePath(path) == path {
		return nil, nil
	}
	l, err := reports.Load(path)
	if err != nil {
		return nil, badInput(err)
	}
	return l.Seconds, nil
}

// bindBand registers --band.
func bindBand(cmd *cobra.Command, band *float64) {
	cmd.Flags().Float64Var(band, "band", 0, "relative difference that does not matter; default: the table's own, else 0.01")
}

// bandOf is --band, else the table's own, else 1 %.
func bandOf(cmd *cobra.Command, band float64, h table.Header) float64 {
	if cmd.Flags().Changed("band") {
		return band
	}
	return cmp.Or(h.Band, 0.01)
}
