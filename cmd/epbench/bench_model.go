package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/model"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/predict"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/sweep"
)

func openModel(_ context.Context, path string) (kernels.Backend, error) {
	b, err := model.Open(path)
	if err != nil {
		return nil, badInput(err)
	}
	return b, nil
}

func predicts(b kernels.Backend) bool { return b.Machine().Backend == ep.Predicted }

// predict prints predicted times. It refuses flags that need measurements.
func (f *benchFlags) predict(cmd *cobra.Command, b kernels.Backend) error {
	for _, g := range []struct {
		flag  string
		given bool
	}{{"--ab", f.abTest.on}, {"--config", f.config != ""}, {"--table", f.table != ""}, {"--out", f.out != ""}} {
		if g.given {
			return usagef("%s: a model predicts times and measures nothing, so it has no configs and writes no run; leave %s out", g.flag, g.flag)
		}
	}
	opts, err := f.options(b)
	if err != nil {
		return err
	}
	for i, p := range opts.Problems { // f.options sets no precision for a model
		if p.Op != ep.Dispatch {
			opts.Problems[i].Precision, _ = ep.ParsePrecision(f.precision)
		}
	}
	run := newRun(b, opts, commandLine(cmd, "bench"))
	job := sweep.Job{Rounds: 1, Log: &recorder{}, Run: run}
	err = sweep.Bench(cmd.Context(), b, opts, job, func(ep.Problem, ep.Class) (ep.Config, string, error) { return ep.Config{}, "", nil })
	if err != nil {
		return err
	}
	if err := f.tables.print(cmd, predict.Marked(reports.Forecast(run))); err != nil {
		return err
	}
	return f.verdict(cmd, run)
}
