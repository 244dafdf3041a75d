package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/conform"
	"github.com/epbench/epbench/tune/ep"
)

type verifyFlags struct {
	backend string
	quick   bool
	stress  bool
	only    string
	part    string
	ranks   []int
	nodes   int
	mode    string
	all     bool
	out     tableFlags
}

func newVerify() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that a backend's answers are right on this machine",
		Long: `Run a backend over a matrix of problems and routings. The oracle checks the outputs of
each config twice: before and after a series of calls without a pause. Together, the
cases have every value of every axis (--quick), every pair of values of two axes
(default), or every triple (--stress). Failures are printed as they occur. After Ctrl-C
the table shows the cases that ran.

Exit code 3: an answer was wrong.`,
		Example: `  epbench verify --backend cuda --quick
  epbench verify --only op=dispatch,ranks=4
  epbench verify --stress --part 1/4`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags(cmd, forSearch, func(s *pflag.FlagSet) {
		s.BoolVar(&f.quick, "quick", false, "every value of every axis once")
		s.BoolVar(&f.stress, "stress", false, "every triple of values of three axes")
		s.StringVar(&f.only, "only", "", "`AXIS=VALUE` run only cases that have all these values, comma-separated")
		s.StringVar(&f.part, "part", "1/1", "`I/N` run the i-th of n equal parts of the cases")
		s.IntSliceVar(&f.ranks, "ranks", nil, "`COUNTS` numbers of ranks in the matrix; default: the machine's")
		s.StringVar(&f.mode, "mode", "", "`MODE` how rounds are launched: graph, eager or cold; default: the backend's")
		s.IntVar(&f.nodes, "nodes", 1, "`N` number of hosts, each with an equal share of the ranks")
	})
	addBackendFlag(cmd, &f.backend)
	f.out.bind(cmd)
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.BoolVar(&f.all, "all", false, "print every value of every axis, and how often each parameter value ran")
	})
	return cmd
}

func (f *verifyFlags) level() conform.Level {
	switch {
	case f.quick:
		return conform.Quick
	case f.stress:
		return conform.Stress
	}
	return conform.Default
}

func (f *verifyFlags) axes(b kernels.Backend) (conform.Axes, error) {
	axes := conform.AxesFor(b.Machine(), b.Kernels())
	if len(f.ranks) > 0 {
		if least := slices.Min(f.ranks); least < 1 {
			return axes, usagef("--ranks: %d is below 1", least)
		}
		axes.Ranks = f.ranks
	}
	if axes.Nodes = f.nodes; axes.Nodes < 1 {
		return axes, usagef("--nodes: %d is below 1", f.nodes)
	}
	if !slices.ContainsFunc(axes.Ranks, func(r int) bool { return r%f.nodes == 0 }) {
		return axes, usagef("--nodes: %d hosts do not divide %v ranks evenly; give --ranks a multiple of %d", f.nodes, axes.Ranks, f.nodes)
	}
	return axes, nil
}

func (f *verifyFlags) run(cmd *cobra.Command) error {
	if _, err := f.out.renderer(cmd); err != nil {
		return err
	}
	if f.quick && f.stress {
		return usagef("--quick and --stress: give one of them")
	}
	b, err := backendOf(cmd, f.backend)
	if err != nil {
		return err
	}
	defer b.Close()
	axes, err := f.axes(b)
	if err != nil {
		return err
	}
	mode, err := modeOf(f.mode, b.Machine())
	if err != nil {
		return usagef("%w", err)
	}
	cases, err := f.filter(conform.Matrix(f.level(), axes, mode))
	if err != nil {
		return err
	}
	results, lost := verifyCases(cmd, b, cases)
	if errors.Is(lost, context.Canceled) {
		lost = withCode(exitInterrupted, fmt.Errorf("interrupted after %d of %d cases", len(results), len(cases)))
	}
	if lost != nil && len(results) == 0 {
		return lost
	}
	tables := verifyTables(title(b.Machine(), f.level()), axes.Tags(), results)
	if len(results) < len(cases) {
		tables[0].Warn("%d of %d cases were run", len(results), len(cases))
	}
	if !f.all && !f.out.forPrograms() {
		tables = headlines(tables)
	}
	if err := f.out.print(cmd, tables...); err != nil {
		return err
	}
	if lost != nil {
		return lost
	}
	return verdictOf(results)
}

func (f *verifyFlags) filter(cases []conform.Case) ([]conform.Case, error) {
	tags := splitList(f.only)
	kept := slices.DeleteFunc(slices.Clone(cases), func(c conform.Case) bool {
		return slices.ContainsFunc(tags, func(tag string) bool { return !slices.Contains(c.Tags, tag) })
	})
	if len(kept) == 0 {
		return nil, usagef("--only: no case of this level has %s; write axis=value as in the table, for example ranks=4,dtype=fp8", f.only)
	}
	mine, err := conform.Part(kept, f.part)
	if err != nil {
		return nil, usagef("--part: %v", err)
	}
	return mine, nil
}

// verifyCases runs the cases and prints failures and progress. After an error it returns the results so far.
func verifyCases(cmd *cobra.Command, b kernels.Backend, cases []conform.Case) ([]conform.Result, error) {
	var out []conform.Result
	progress := startVerifyProgress(cmd.ErrOrStderr(), len(cases), verifyEvery)
	defer progress.close()
	err := conform.Run(cmd.Context(), b, cases, func(r conform.Result) {
		out = append(out, r)
		var failures []string
		for _, o := range r.Failed() {
			failures = append(failures, fmt.Sprintf("%s, %s: %s: %s", r.Case.Name, o.Config.Key(), o.Status, o.Reason))
		}
		progress.add(failures...)
	})
	return out, err
}

// verdictOf returns an error with exit code 3 if an answer was wrong. If a config failed for another reason, or if no
// case ran, the exit code is 1.
func verdictOf(results []conform.Result) error {
	wrong, failed, ran := 0, 0, 0
	for _, r := range results {
		ran += len(r.Trials)
		for _, o := range r.Failed() {
			if o.Status == ep.Mismatch {
				wrong++
			} else {
				failed++
			}
		}
	}
	switch {
	case wrong > 0:
		return withCode(exitWrong, fmt.Errorf("%d of %d configs gave wrong answers, %d failed otherwise", wrong, ran, failed))
	case failed > 0:
		return fmt.Errorf("%d of %d configs failed", failed, ran)
	case ran == 0:
		return fmt.Errorf("no case could be run: %s", results[0].Skipped)
	}
	return nil
}
