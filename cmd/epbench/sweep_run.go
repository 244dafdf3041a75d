package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/html"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/sweep"
)

func (f *sweepFlags) run(cmd *cobra.Command) error {
	began := time.Now()
	if _, err := f.tables.renderer(cmd); err != nil {
		return err
	}
	if f.resume != "" {
		return f.continueRun(cmd)
	}
	if len(f.retry) > 0 {
		return usagef("--retry: needs --resume DIR, the run in which the config failed")
	}
	b, err := backendOf(cmd, f.backend)
	if err != nil {
		return err
	}
	defer b.Close()
	p, err := f.plan(b)
	if err != nil {
		return err
	}
	if f.dryRun {
		if err := probe(cmd, b, p); err != nil {
			return err
		}
		return f.printPlan(cmd, p)
	}
	if err := f.holdBudget(cmd, b, p, began); err != nil {
		return err
	}
	if f.out == "" {
		f.out = filepath.Join("epbench-runs", time.Now().Format("20060102-150405"))
	}
	run := newRun(b, p.Options, f.command(cmd))
	run.Space = p.Fingerprint
	dir, err := record.CreateDir(f.out, run)
	if err != nil {
		return badInput(fmt.Errorf("--out: %w", err))
	}
	if run.Empty, err = emptyClock(cmd.Context(), b); err == nil {
		err = dir.WriteRun(run) // --resume needs it, even after a crash
	}
	if err == nil {
		err = f.sweep(cmd, b, p, &started{dir, run, nil, began})
	}
	var coded *exitError
	if err != nil && !errors.As(err, &coded) {
		return errors.Join(err, dir.Discard())
	}
	return errors.Join(err, dir.Close())
}

func (f *sweepFlags) plan(b kernels.Backend) (*sweep.Plan, error) {
	opts, err := f.options(b)
	if err != nil {
		return nil, err
	}
	p, err := sweep.MakePlan(b, opts)
	if err != nil {
		return nil, badInput(err)
	}
	return p, anyLegal(b, p)
}

// overBudget is the share by which a sweep may exceed its budget without a warning.
const overBudget = 0.1

// holdBudget warns if a probe says that the sweep takes longer than --budget. Without --budget, it raises the default
// budget instead. It does not fail, because a busy machine can make the probe several times slower.
func (f *sweepFlags) holdBudget(cmd *cobra.Command, b kernels.Backend, p *sweep.Plan, began time.Time) error {
	if p.Options.Time == 0 {
		return nil
	}
	if err := probe(cmd, b, p); err != nil {
		return err
	}
	started := time.Since(began)
	least := started + p.Least()
	if least.Seconds() <= (1+overBudget)*p.Options.Time.Seconds() {
		return nil
	}
	enough := least.Round(time.Second) + time.Second
	if f.budget != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: --budget %s is too short: a probe says that this sweep takes at least %v, and that the first search begins after %v; give a larger budget, or fewer of --tokens, --routing and --op\n", f.budget, enough, started.Round(time.Second))
		return nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "budget: %v instead of %v, because a probe says that this sweep takes at least that long\n", enough, cpuBudget)
	p.Options.Time = enough
	return cmd.Flags().Set("budget", enough.String())
}

func probe(cmd *cobra.Command, b kernels.Backend, p *sweep.Plan) error {
	show := newProgress(cmd.ErrOrStderr())
	defer show.stop()
	p.Options.Progress = show.event
	return p.Probe(cmd.Context(), b)
}

func newRun(b kernels.Backend, opts *sweep.Options, command []string) *record.Run {
	policy := opts.Policy(b.Machine())
	var routings []string
	for _, d := range opts.Distributions {
		routings = append(routings, d.Spec())
	}
	return &record.Run{
		Tool: version, Command: command, Started: time.Now().UTC(), Machine: b.Machine(), ABI: sweep.ABI(b), Kernels: works(kernels.WithHooks(b.Kernels(), opts.Params)),
		Policy: policy.String(), Protocol: record.Protocol, Band: policy.Band, Seed: opts.Seed, Strategy: opts.Strategy, Routings: routings,
	}
}

// works returns the kernels that declare what they do in a call (ep.Work), for example what their time includes.
func works(all []kernels.Kernel) []record.Kernel {
	var out []record.Kernel
	for _, k := range all {
		if k.Work.Layout != "" {
			out = append(out, record.Kernel{Name: k.Name, Op: k.Op, Work: k.Work})
		}
	}
	return out
}

// emptyClock returns the seconds that each clock reads for an empty kernel, or nil.
func emptyClock(ctx context.Context, b kernels.Backend) (map[string]float64, error) {
	c, ok := b.(kernels.Clocker)
	if !ok {
		return nil, nil
	}
	empty, err := c.Empty(ctx)
	if err != nil {
		return nil, fmt.Errorf("timing an empty kernel: %w", err)
	}
	return empty, nil
}

// started is an open run directory, with the results in its log.
type started struct {
	dir     *record.Dir
	run     *record.Run
	results []record.Result
	began   time.Time // when the command began
}

// continueRun continues the run of --resume. It returns an error if machine, kernels or search space have changed.
func (f *sweepFlags) continueRun(cmd *cobra.Command) error {
	began := time.Now()
	given := ""
	if cmd.Flags().Changed("backend") {
		given = f.backend
	}
	if n := len(f.command(cmd)); f.out != "" || n > 3 || n == 3 && given == "" {
		return usagef("--resume: continues with the flags recorded in %s; leave all other flags out", filepath.Join(f.resume, record.RunFile))
	}
	dir, run, results, cut, err := record.OpenDir(f.resume)
	if err != nil {
		return badInput(fmt.Errorf("--resume: %w", err))
	}
	defer dir.Close()
	if cut > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: %d bytes of an unfinished block were dropped\n", record.TrialsFile, cut)
	}
	g, err := resumed(run.Command)
	if err != nil {
		return badInput(fmt.Errorf("--resume %s: %w", f.resume, err))
	}
	if given != "" && given != g.backend {
		return usagef("--backend: the run in %s was begun with --backend %q; leave the flag out, or give this backend", f.resume, g.backend)
	}
	if err := cmp.Or(checkTrust("--resume "+f.resume, g.backend, given, f.trust), checkTrust("--resume "+f.resume, g.strategy, "", f.trust)); err != nil {
		return err
	}
	g.tables, g.profile, g.resume = f.tables, f.profile, f.resume
	b, err := backendOf(cmd, g.backend)
	if err != nil {
		return err
	}
	defer b.Close()
	p, err := g.plan(b)
	if err != nil {
		return err
	}
	if err := sweep.Continues(run, b, p); err != nil {
		return badInput(fmt.Errorf("--resume %s: %w", f.resume, err))
	}
	for i, spec := range f.retry {
		if f.retry[i], err = fromRow(spec, winnerRows); err != nil {
			return badInput(fmt.Errorf("--retry: %w", err))
		}
	}
	if err := sweep.Retry(run, results, f.retry); err != nil {
		return badInput(fmt.Errorf("--retry: %w", err))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "resuming %s: %d trials are already measured\n", f.resume, len(results))
	return g.sweep(cmd, b, p, &started{dir, run, results, began})
}

func (f *sweepFlags) sweep(cmd *cobra.Command, b kernels.Backend, p *sweep.Plan, s *started) error {
	show := newProgress(cmd.ErrOrStderr())
	p.Options.Progress, p.Options.Began = show.event, s.began
	out, err := sweep.Run(cmd.Context(), b, p, s.dir, s.run, s.results)
	show.stop()
	if errors.Is(err, context.Canceled) {
		return f.interrupted(cmd, s.dir, out)
	}
	if crash := (*sweep.DefaultsCrash)(nil); errors.As(err, &crash) {
		return fmt.Errorf("%w. To measure these defaults again: epbench sweep --resume %s --retry %s", err, ep.Quote(s.dir.Path()), strings.Join(crash.Configs, " --retry "))
	}
	if err != nil && s.dir.Results() == 0 {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w; what was measured is in %s, continue with --resume", err, s.dir.Path())
	}
	if err := f.write(s.dir, out); err != nil {
		return err
	}
	if err := f.print(cmd, out, s.dir.Path()); err != nil {
		return err
	}
	if out.Table == nil {
		return withCode(exitUndecided, errors.New(out.NoTable))
	}
	return nil
}

// interrupted writes and prints the searches that were done.
func (f *sweepFlags) interrupted(cmd *cobra.Command, dir *record.Dir, out *sweep.Summary) error {
	if out != nil {
		if err := f.write(dir, out); err != nil {
			return err
		}
		if err := f.print(cmd, out, dir.Path()); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%d searches were not done\n", out.Left)
	}
	return withCode(exitInterrupted, fmt.Errorf("interrupted; continue with: epbench sweep --resume %s", ep.Quote(dir.Path())))
}

func (f *sweepFlags) write(dir *record.Dir, out *sweep.Summary) error {
	start := time.Now()
	if out.Table != nil {
		if err := record.WriteFile(filepath.Join(dir.Path(), record.TableFile), out.Table); err != nil {
			return err
		}
	}
	l, err := reports.Load(dir.Path())
	if err != nil {
		return err
	}
	err = dir.WriteFile(record.SummaryFile, record.Content(func(w io.Writer) error { return writeSummary(w, out, l.Cases) }))
	return errors.Join(err, html.WriteRun(l), out.Wrote(dir, start))
}
