package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/table/curate"
)

func newTableMerge() *cobra.Command {
	var out tableFlags
	var path string
	var band float64
	cmd := &cobra.Command{
		Use:   "merge OLD NEW -o OUT",
		Short: "Add rows to a table; an old row stays unless clearly beaten",
		Long: `Merge the rows of NEW into OLD. At a token count that only one table measured, the row of
that table is taken. If both measured it, the row of OLD stays, unless the gain of NEW is
larger by more than the band and the intervals do not overlap. If NEW is a run that also
timed OLD's config, NEW wins if that config is slower by more than the band. A row of an
earlier build of a kernel is replaced if the other table has a row of a later build.
Between two measured token counts, the row of the nearer one is taken.

Rows of a run are first split into rows of one token count each. A sweep may time a
token count without a search: it then times only the winners of the nearest searches,
below and above this count. These times are ignored if the other table has a search
that is nearer. They count for a row without any searched token count.
Every range that both tables measured is printed, with the evidence of both. The merged
table has the fallback of OLD.`,
		Example: `  epbench table merge table.json run -o table.json
  epbench table merge old.json new.json -o merged.json --format csv
  epbench table merge h200x4 run -o mine.json --band 2%`,
		Args: exactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if path == "" {
				return usagef("-o FILE is required: the merged table")
			}
			t, err := mergeTables(cmd, args[0], args[1], path, band)
			if err != nil {
				return err
			}
			return out.print(cmd, t)
		},
	}
	flags(cmd, forTables, func(s *pflag.FlagSet) { bindBand(s, &band) })
	flags(cmd, forOutput, func(s *pflag.FlagSet) { s.StringVarP(&path, "out", "o", "", "`FILE` file to write") })
	out.bind(cmd)
	return cmd
}

func mergeTables(cmd *cobra.Command, oldPath, newPath, path string, band float64) (t reports.Table, err error) {
	old, _, err := loadSplit(oldPath)
	if err != nil {
		return t, err
	}
	newcomer, run, err := loadSplit(newPath)
	if err != nil {
		return t, err
	}
	band = max(bandOf(band, old.Header), bandOf(band, newcomer.Header))
	rule := curate.Rule{Band: band}
	if run != nil {
		rule.Measured = run.Seconds
	}
	merged, overlaps, err := curate.Merge(old, newcomer, rule)
	if err != nil {
		return t, withCode(exitNotComparable, err)
	}
	if err := writeOut(cmd, path, merged); err != nil {
		return t, err
	}
	t = overlapTable(old.Header, newcomer.Header, overlaps)
	t.Notes = append(t.Notes, fmt.Sprintf("%d rows of %s and %d of %s became %d in %s (band %g %%)",
		len(old.Rows), oldPath, len(newcomer.Rows), newPath, len(merged.Rows), path, 100*band))
	if !slices.Equal(old.Header.Fallback, newcomer.Header.Fallback) {
		t.Notes = append(t.Notes, fmt.Sprintf("the fallback is that of %s: %s; %s has %s",
			oldPath, orNone(old.Header.Fallback), newPath, orNone(newcomer.Header.Fallback)))
	}
	return t, nil
}

func overlapTable(old, newcomer table.Header, overlaps []curate.Overlap) reports.Table {
	t := reports.Table{Name: "overlaps", Columns: slices.Concat(keyColumns(), []reports.Column{reports.Words("tokens"), reports.Words("effect")},
		sideColumns("old"), sideColumns("new"), []reports.Column{reports.Words("evidence old").Dropped(3), reports.Words("evidence new").Dropped(2)})}
	t.Columns[slices.IndexFunc(t.Columns, func(c reports.Column) bool { return c.Name == "gain old" })].Drop = 1
	for _, d := range overlaps {
		t.Add(slices.Concat(keyCells(d.Key), []reports.Cell{reports.Str(spanText(d.Lo, d.Hi)), reports.Str(string(d.Effect))},
			sideCells(old, d.Old), sideCells(newcomer, d.New),
			[]reports.Cell{reports.Str(evidenceText(d.Old)), reports.Str(evidenceText(d.New))})...)
	}
	return t
}

// loadSplit reads a table. For a run directory it returns the run too, and splits rows by measured token count.
func loadSplit(path string) (*table.Table, *reports.Loaded, error) {
	t, err := loadTable(path, false)
	if err != nil || tablePath(path) == path {
		return t, nil, err
	}
	l, err := reports.Load(path)
	if err != nil {
		return nil, nil, badInput(err)
	}
	return curate.Split(t, timedIn(l)), l, nil
}

// timedIn returns a function that finds a row's times at a token count, under the routing with the smallest gain.
func timedIn(l *reports.Loaded) func(r table.Row, tokens int) (curate.Timing, bool) {
	return func(r table.Row, tokens int) (least curate.Timing, ok bool) {
		for i, routing := range r.Evidence.Routings {
			t, ok := decidedAt(l.Run, r, tokens, routing)
			if !ok {
				t, ok = crossedAt(l, r, tokens, routing)
			}
			if !ok {
				return least, false
			}
			if i == 0 || t.Gain < least.Gain {
				least = t
			}
		}
		return least, len(r.Evidence.Routings) > 0
	}
}

// decidedAt finds times in the search that chose the row's config at a token count.
func decidedAt(run *record.Run, r table.Row, tokens int, routing string) (t curate.Timing, ok bool) {
	for i := range run.Searches {
		s := &run.Searches[i]
		d := s.Decision
		if s.Problem.Tokens == tokens && s.Routing == routing && table.KeyOf(s.Problem, r.Key.Routing) == r.Key &&
			d.Usable() && r.Default == d.KeepsDefault() && (r.Default || d.Config.Key() == r.Config.Key()) {
			return curate.Timing{Median: s.Times.Median, P10: s.Times.P10, P90: s.Times.P90, Gain: d.Gain.Mid, GainLow: d.Gain.Low, GainHigh: d.Gain.High,
				Rounds: d.Rounds, Sessions: d.Sessions, MaxErr: s.MaxErr}, true
		}
	}
	return t, false
}

// crossedAt returns the times of the config of r from the stage "cross". In this stage, a sweep measures configs that
// other searches chose.
func crossedAt(l *reports.Loaded, r table.Row, tokens int, routing string) (t curate.Timing, ok bool) {
	config, dflt := l.Paired(r.Key, tokens, routing, r.Config)
	if len(config) == 0 {
		return t, false
	}
	gain := stat.Slowdown(dflt, config)
	return curate.Timing{Median: stat.Median(config), P10: stat.Quantile(config, 0.1), P90: stat.Quantile(config, 0.9),
		Gain: gain.Mid, GainLow: gain.Low, GainHigh: gain.High, Rounds: len(config), MaxErr: r.Evidence.MaxErr}, true
}

func orNone(fields []string) string {
	if len(fields) == 0 {
		return "none"
	}
	return strings.Join(fields, ", ")
}

func bindBand(s *pflag.FlagSet, band *float64) {
	percentVar(s, band, "band", maxBand, "`PERCENT` least difference that counts, such as 3%; default: the table's own")
}

// bandOf returns --band, else the table's band, else the default band of the table's machine.
func bandOf(flag float64, h table.Header) float64 {
	return cmp.Or(flag, h.Band, measure.PolicyFor(h.Machine).Band)
}
