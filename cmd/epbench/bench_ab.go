package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/sweep"
)

type abFlags struct {
	on     bool
	failOn float64
}

func (f *abFlags) args(_ *cobra.Command, args []string) error {
	switch {
	case f.on && len(args) != 2:
		return usagef("--ab: give two configs, each as %s", configUsageRun)
	case !f.on && f.failOn > 0:
		return usagef("--fail-on: needs --ab A B, because it judges B against A")
	case !f.on && len(args) > 0:
		return usagef("%q: bench takes no argument without --ab; give a config with --config", args[0])
	}
	return nil
}

// ab measures configs A and B in the same rounds.
func (f *benchFlags) ab(cmd *cobra.Command, b kernels.Backend, args []string) error {
	gate := compareFlags{failOn: f.abTest.failOn, undecided: "fail"}
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
			return usagef("--ab: both configs are %s; give two different ones (A is always measured against itself too)", x[0].Key())
		}
	}
	run, results, err := f.recorded(cmd, b, opts, func(j sweep.Job) error {
		j.Rounds += j.Rounds % 2 // even, so that A and B come first equally often
		return sweep.AB(cmd.Context(), b, opts, j, configs)
	})
	if err != nil {
		return err
	}
	c := reports.CompareLive(run, results, run.Band)
	x := configs[opts.Problems[0]]
	t := reports.ComparisonTable(c)
	t.Title = fmt.Sprintf("B (%s) against A (%s), in the same rounds", x[1].ID(), x[0].ID())
	t.Note("B differs from A by "+x[1].Difference(x[0]), "A: "+x[0].Key())
	f.tables.lead = b.Machine().Rehearsal(opts.Problems[0].Ranks)
	if err := f.tables.print(cmd, t); err != nil {
		return err
	}
	return gate.gate(cmd, c)
}
