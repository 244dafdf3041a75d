package main

import (
	"fmt"
	"slices"
	"time"

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

func (f *abFlags) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "ab", false, "compare two configurations live: bench --ab CONFIG_A CONFIG_B")
	cmd.Flags().StringVar(&f.failOn, "fail-on", "", "with --ab, slow-down of B that fails, such as 3%")
}

// args says how many arguments bench takes.
func (f *abFlags) args(_ *cobra.Command, args []string) error {
	switch {
	case f.on && len(args) != 2:
		return usagef("--ab: give two configurations, kernel:name=value,name=value each")
	case !f.on && len(args) > 0:
		return usagef("%q: bench takes no argument without --ab; a configuration is --config", args[0])
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

// liveBand is the least difference that a live comparison claims.
const liveBand = 0.01

// contest parses the two sides.
func contest(args []string) (x sweep.Contest, err error) {
	for i, to := range []*ep.Config{&x.A, &x.B} {
		if *to, err = ep.ParseConfig(args[i]); err != nil {
			return x, usagef("--ab: %w", err)
		}
		if to.IsDefault() {
			return x, usagef("--ab: spell both configurations out; epbench backends --kernels lists them")
		}
	}
	if x.A.Key() == x.B.Key() {
		return x, usagef("--ab: both are %s; every run measures A against itself anyway", x.A.Key())
	}
	return x, nil
}

// ab measures two configurations live and judges B against A.
func (f *benchFlags) ab(cmd *cobra.Command, b kernels.Backend, args []string) error {
	x, err := contest(args)
	if err != nil {
		return err
	}
	gate := compareFlags{failOn: f.abTest.failOn, undecided: "fail"}
	fail, err := gate.threshold()
	if err != nil {
		return err
	}
	opts, err := f.options(b)
	if err != nil {
		return err
	}
	opts.Problems = slices.DeleteFunc(opts.Problems, func(p ep.Problem) bool {
		_, errA := kernels.Find(b.Kernels(), p.Op, x.A.Kernel)
		_, errB := kernels.Find(b.Kernels(), p.Op, x.B.Kernel)
		return errA != nil || errB != nil
	})
	if len(opts.Problems) == 0 {
		return usagef("--ab: no op of %s has both %q and %q here", f.problem.ops, x.A.Kernel, x.B.Kernel)
	}
	accept(b, opts.Problems, x.A, x.B)
	c, err := f.measureAB(cmd, b, opts, x)
	if err != nil {
		return err
	}
	t := reports.ComparisonTable(c)
	t.Title = fmt.Sprintf("B %s against A %s, in the same rounds", x.B.Key(), x.A.Key())
	if err := f.tables.print(cmd, t); err != nil || fail == 0 {
		return err
	}
	return gate.gate(cmd, c, fail)
}

func (f *benchFlags) measureAB(cmd *cobra.Command, b kernels.Backend, opts *sweep.Options, x sweep.Contest) (*reports.Comparison, error) {
	run := &record.Run{
		Tool: version, Command: commandLine(cmd, "bench", x.A.Key(), x.B.Key()), Started: time.Now().UTC(), Machine: b.Machine(),
		ABI: sweep.ABI(b), Policy: measure.PolicyFor(b.Machine()).String(), Seed: opts.Seed,
	}
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
	if err := sweep.AB(cmd.Context(), b, opts, sweep.Job{Rounds: rounds, Log: log, Run: run}, x); err != nil {
		return nil, err
	}
	if dir, ok := log.Log.(*record.Dir); ok {
		if err := dir.WriteRun(run); err != nil {
			return nil, err
		}
	}
	return reports.CompareLive(run, log.results, liveBand), nil
}
