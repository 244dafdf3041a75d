package main

import (
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search/replay"
)

func newReplaySessions() *cobra.Command {
	var tables tableFlags
	cmd := &cobra.Command{
		Use:   "sessions RUN...",
		Short: "Print how much recorded gains differ between sessions",
		Long: `Compare the gains of each config between the sessions of runs. Two gains of a config
differ clearly if they differ by more than 1.96 times their joint standard error. Print
in how many per cent of the comparisons the gains differ clearly: first for gains of
single sessions, then for gains of three or more sessions. If the standard errors are
right, both numbers are 5 %.`,
		Example: "  epbench replay sessions run\n  epbench replay sessions run1 run2\n  epbench replay sessions run --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := stabilityTable(args)
			if err != nil {
				return err
			}
			return tables.print(cmd, t)
		},
	}
	tables.bind(cmd)
	return cmd
}

// stabilityTable returns a table with a row for each run. Its last row is for all runs together.
func stabilityTable(paths []string) (reports.Table, error) {
	n := reports.Numbers
	t := reports.Table{
		Name: "sessions", Title: "Gains in several sessions",
		Columns: []reports.Column{reports.Words("run"), n("configs", ""), n("sessions", ""), n("times", "%"), n("gains", "%"),
			n("alone", "%"), n("claims", ""), n("beyond", "%"), n("of time", "%")},
		Notes: []string{
			"times, gains: standard deviation of the times or gains of a config between sessions",
			"alone: share of pairs of consecutive sessions whose gains differ clearly, by more than 1.96 times their joint standard error",
			"claims: number of claims that were compared. A claim is a config's gain from three sessions or more. It is compared with the gain from the next three sessions, or from the search if there are fewer than six sessions",
			"beyond: share of the claims that differ clearly from the gain with which they were compared",
			"of time: share of the run's wall time that the sessions after the search took",
		},
	}
	var all replay.Stability
	for _, path := range paths {
		run, results, _, err := record.ReadDir(path)
		if err != nil {
			return t, badInput(err)
		}
		if s := replay.StabilityOf(results); s.Configs > 0 {
			addStability(&t, filepath.Base(path), s, reports.Float(100*sessionSeconds(results)/run.Wall.Total, 0))
			all.Add(s)
		}
	}
	if all.Configs == 0 {
		return t, badInput(errors.New(paths[0] + ": no run has a config in three sessions; sweep with --sessions 3"))
	}
	if len(t.Rows) > 1 {
		addStability(&t, "all", all, reports.None())
	}
	return t, nil
}

// sessionSeconds returns the wall time of the sessions after the search.
func sessionSeconds(results []record.Result) (seconds float64) {
	for _, r := range results {
		if r.Stage == record.StageSession && r.End {
			seconds += r.Wall
		}
	}
	return seconds
}

func addStability(t *reports.Table, name string, s replay.Stability, ofTime reports.Cell) {
	share := func(k, n int) reports.Cell { return reports.Float(100*float64(k)/float64(n), 1) }
	t.Add(reports.Str(name), reports.Int(s.Configs), reports.Int(s.Sessions), reports.Float(100*s.TimeSpread, 2), reports.Float(100*s.GainSpread, 2),
		share(s.AloneBeyond, s.Alone), reports.Int(s.Claims), share(s.Beyond, s.Claims), ofTime)
}
