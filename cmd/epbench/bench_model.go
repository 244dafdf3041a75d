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

// openModel opens a backend that predicts times by the model in the file path.
func openModel(_ context.Context, path string) (kernels.Backend, error) {
	b, err := model.Open(path)
	if err != nil {
		return nil, badInput(err)
	}
	return b, nil
}

// predicts reports whether a backend's times come from a model.
func predicts(b kernels.Backend) bool { return b.Machine().Backend == ep.Predicted }

// predict prints the times that a model predicts for the problems. It returns an error for
// flags that need measured times.
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
	for i, p := range opts.Problems { // options set no precision, because a model's kernels have no parameters
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
