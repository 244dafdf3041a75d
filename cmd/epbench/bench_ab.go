package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/sweep"
	"github.com/epbench/epbench/tune/sweep/measure"
)

// abFlags are what bench --ab adds to bench.
type abFlags struct {
	on     bool
	failOn string
}

// args says how many arguments bench takes.
func (f *abFlags) args(_ *cobra.Command, args []string) error {
	switch {
	case f.on && len(args) != 2:
		return usagef("--ab: give two configs, each as %s", configUsage)
	case !f.on && len(args) > 0:
		return usagef("%q: bench takes no argument without --ab; a config is --config", args[0])
	}
	return nil
}

// recorder keeps a run's results and hands them on.
type recorder struct {
	measure.Log
	results []record.Result
}

func (r *recorder) Append(block []record.Result, wall float64) error {
	r.results = append(r.results, block...)
	return r.Log.Append(block, wall)
}

// ab measures two configs live and judges B against A.
func (f *benchFlags) ab(cmd *cobra.Command, b kernels.Backend, args []string) error {
	gate := compareFlags{failOn: f.abTest.failOn, undecided: "fail"}
	fail, err := gate.threshold()
	if err != nil {
		return err
	}
	opts, err := f.options(b)
	if err != nil {
		return err
	}
	var configs map[ep.Problem][]ep.Config
	if opts.Problems, configs, err = readConfigs("--ab", b, opts.Problems, args...); err != nil {
		return err
	}
	for _, p := range opts.Problems {
		if x := configs[p]; x[0].Key() == x[1].Key() {
			return usagef("--ab: both are %s; every run measures A against itself anyway", x[0].Key())
		}
	}
	c, err := f.measureAB(cmd, b, opts, func(p ep.Problem) sweep.Contest { return sweep.Contest{A: configs[p][0], B: configs[p][1]} })
	if err != nil {
		return err
	}
	x := configs[opts.Problems[0]]
	t := reports.ComparisonTable(c)
	t.Title = fmt.Sprintf("B (%s) against A (%s), in the same rounds", x[1].ID(), x[0].ID())
	t.Note("B differs from A by "+x[1].Difference(x[0]), "A: "+x[0].Key())
	if err := f.tables.print(cmd, t); err != nil || fail == 0 {
		return err
	}
	return gate.gate(cmd, c, fail)
}

func (f *benchFlags) measureAB(cmd *cobra.Command, b kernels.Backend, opts *sweep.Options, of func(ep.Problem) sweep.Contest) (*reports.Comparison, error) {
	run := newRun(b, opts, commandLine(cmd, "bench", cmd.Flags().Args()...))
	log := &recorder{Log: discard{}}
	if f.out != "" {
		dir, err := record.CreateDir(f.out, run)
		if err != nil {
			return nil, badInput(fmt.Errorf("--out: %w", err))
		}
		defer dir.Close()
		log.Log = dir
	}
	rounds := f.rounds + f.rounds%2 // an even number keeps the order balanced
	if err := sweep.AB(cmd.Context(), b, opts, sweep.Job{Rounds: rounds, Log: log, Run: run}, of); err != nil {
		return nil, err
	}
	if dir, ok := log.Log.(*record.Dir); ok {
		if err := dir.WriteRun(run); err != nil {
			return nil, err
		}
	}
	return reports.CompareLive(run, log.results, run.Band), nil
}
