package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/sweep"
)

type interleaveFlags struct {
	filter runFilter
	turns  int
	out    string
	trust  bool
	tables tableFlags
}

func newInterleave() *cobra.Command {
	var f interleaveFlags
	cmd := &cobra.Command{
		Use:   "interleave RUN...",
		Short: "Measure the winners of several runs again, in alternating turns",
		Long: `Measure the winners of several runs of sweep or bench again, each with its default. In
every turn each run's library has one round, in an order that changes from turn to turn.
So a drift of the machine slows all libraries alike. All backends start at the beginning.
They check their answers at the same time, but their rounds follow one another. In DIR
(-o) interleave writes one new run directory for each run. All runs must have the same
--seed, because the seed changes which experts tokens select.`,
		Example: `  epbench interleave dsv3-deepep dsv3-nccl --trust-command -o dsv3-turns
  epbench interleave dsv3-* --trust-command --op pair --turns 100 -o dsv3-pairs
  epbench table choose dsv3-turns/*`,
		Args: minArgs(2),
		RunE: func(cmd *cobra.Command, paths []string) error { return f.run(cmd, paths) },
	}
	flags(cmd, forProblem, func(s *pflag.FlagSet) { f.filter.bind(s) })
	flags(cmd, forSearch, func(s *pflag.FlagSet) {
		s.IntVar(&f.turns, "turns", 40, "`N` number of turns; in each turn every config has one round")
	})
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVarP(&f.out, "out", "o", "", "`DIR` directory for the new run directories, which get the names of the old ones; required")
		bindTrust(s, &f.trust)
	})
	f.tables.bind(cmd)
	return cmd
}

func (f *interleaveFlags) run(cmd *cobra.Command, paths []string) error {
	if f.turns < 2 || f.turns > 100_000 {
		return usagef("--turns: %d is outside 2 to 100000", f.turns)
	}
	if f.out == "" {
		return usagef("-o DIR is required: the directory for the new runs")
	}
	runs, err := f.filter.load(cmd, paths)
	if err != nil {
		return err
	}
	if err := checkInterleaved(runs); err != nil {
		return err
	}
	now := time.Now()
	t := &interleaving{flags: f, backends: map[string]*startedBackend{}, began: now, id: now.UTC().Format(time.RFC3339Nano)}
	defer t.close()
	comparisons, err := t.comparisons(cmd, runs)
	if err != nil {
		return err
	}
	err = sweep.Interleave(cmd.Context(), comparisons, func(h sweep.Interleaving) {
		p := h.Sides[0].Problem
		fmt.Fprintf(cmd.ErrOrStderr(), "%s, %d tokens, %s: %d runs in turns\n", p.Op, p.Tokens, h.Routing, len(h.Sides))
	})
	if err = errors.Join(err, t.write()); err != nil {
		return err
	}
	return f.print(cmd, t)
}

// checkInterleaved returns an error if two runs have different seeds or the same name.
func checkInterleaved(runs []*reports.Loaded) error {
	for i, l := range runs {
		if first := runs[0]; l.Run.Seed != first.Run.Seed {
			return withCode(exitNotComparable, fmt.Errorf("%s was made with --seed %d, %s with --seed %d: the seed changes which experts tokens select; sweep one of them again with the seed of the other",
				first.Path, first.Run.Seed, l.Path, l.Run.Seed))
		}
		if slices.ContainsFunc(runs[:i], func(x *reports.Loaded) bool { return x.Name() == l.Name() }) {
			return usagef("two of the runs have the name %s, but -o needs a different name for each new run: rename one of the two, or give it once if they are the same run", l.Name())
		}
	}
	return nil
}

func (f *interleaveFlags) print(cmd *cobra.Command, t *interleaving) error {
	var runs []*reports.Loaded
	for _, r := range t.runs {
		if l, err := reports.Load(r.path); err == nil { // a run whose first config failed has no trials
			runs = append(runs, l)
		}
	}
	if len(runs) == 0 {
		return t.failure()
	}
	f.tables.lead = reports.RehearsalOf(runs)
	choices, err := reports.CompareLibraries(runs)
	if err != nil {
		return withCode(exitNotComparable, err)
	}
	if err := f.tables.print(cmd, reports.FastestTable(choices)); err != nil {
		return err
	}
	return t.failure()
}

func (t *interleaving) failure() error {
	if len(t.missing) > 0 {
		return errors.Join(t.missing...)
	}
	for _, r := range t.runs {
		for _, s := range r.Job.Run.Searches {
			if !s.OK() {
				return withCode(exitWrong, fmt.Errorf("%s: %s, %d tokens, %s failed: %s", r.path, s.Problem.Op, s.Problem.Tokens, s.Routing, s.Decision.Reason))
			}
		}
	}
	return nil
}

// interleaving holds runs that are measured in turns.
type interleaving struct {
	flags    *interleaveFlags
	id       string                     // record.Run.InterleaveID
	backends map[string]*startedBackend // by value of --backend
	runs     []*openRun
	began    time.Time
	starting time.Duration // until all backends had started
	missing  []error       // errors of backends that did not start
}

type openRun struct {
	*sweep.InterleavedRun
	path string
	dir  *record.Dir
}

type runCase struct {
	problem ep.Problem // without MaxTokens and Layout
	work    string     // ep.Work.Key
	run     string
	backend string // value of --backend
	routing string
	seed    uint64
	sweep.Side
}

func (t *interleaving) comparisons(cmd *cobra.Command, runs []*reports.Loaded) ([]sweep.Interleaving, error) {
	recorded := make([]origin, len(runs))
	for i, l := range runs {
		var err error
		if recorded[i], err = originOf(l.Run.Command); err != nil {
			return nil, badInput(fmt.Errorf("%s: %w", l.Path, err))
		}
		if err := checkTrust(l.Path, recorded[i].backend, "", t.flags.trust); err != nil {
			return nil, err
		}
	}
	t.start(cmd, recorded)
	t.starting = time.Since(t.began)
	var cases []runCase
	for i, l := range runs {
		r, err := t.open(cmd, l, recorded[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Path, err)
		}
		if r == nil {
			continue
		}
		for _, c := range l.Cases {
			w, d := c.Winner(), c.Default()
			if w == nil || d == nil || !w.OK() || !d.OK() {
				continue
			}
			cases = append(cases, runCase{withoutBuffers(c.Problem), l.Run.Work(c.Problem.Op, w.Config).Key(c.Problem), l.Path, recorded[i].backend, c.Routing, c.Seed,
				sweep.Side{Run: r.InterleavedRun, Problem: c.Problem, Config: w.Config, Default: d.Config}})
		}
	}
	if len(cases) == 0 && len(t.missing) > 0 {
		return nil, errors.Join(t.missing...)
	}
	if len(cases) == 0 {
		return nil, usagef("in these runs no case has times of both a winner and a default")
	}
	return groupCases(cases)
}

type origin struct {
	backend string
	band    float64 // 0: the machine's default
}

func originOf(command []string) (origin, error) {
	if len(command) < 2 || command[1] != "bench" {
		f, err := resumed(command)
		if err != nil {
			return origin{}, err
		}
		return origin{f.backend, f.band}, nil
	}
	bench := newBench()
	if err := bench.ParseFlags(command[2:]); err != nil {
		return origin{}, err
	}
	backend, err := bench.Flags().GetString("backend")
	return origin{backend: backend}, err
}

// groupCases groups cases of the same problem, routing and seed. Each case of a group needs its own backend, because a
// backend runs one workload at a time. If two cases of a group have the same backend, groupCases splits the group by
// work (ep.Work.Key). If that is not enough, it splits the parts by layout, because layouts rank and rank:packed have the
// same work. It returns an error if two cases with the same work and layout have the same backend.
func groupCases(cases []runCase) ([]sweep.Interleaving, error) {
	var out []sweep.Interleaving
	for _, group := range groupBy(cases, func(x runCase) string { return fmt.Sprint(x.problem.Key(), x.routing, x.seed) }) {
		for _, part := range apart(group) {
			if x := sharesBackend(part); x != nil {
				return nil, usagef("%s: the case %s, %d tokens, %s is also in another run of the same backend; give only one of the two runs", x.run, x.problem.Op, x.problem.Tokens, x.routing)
			}
			h := sweep.Interleaving{Routing: part[0].routing, Seed: part[0].seed}
			for _, x := range part {
				h.Sides = append(h.Sides, x.Side)
			}
			out = append(out, h)
		}
	}
	return out, nil
}

// apart splits a group until no part has two cases of one backend, or until all cases of a part have the same work and
// layout.
func apart(group []runCase) (parts [][]runCase) {
	if sharesBackend(group) == nil {
		return [][]runCase{group}
	}
	for _, part := range groupBy(group, func(x runCase) string { return x.work }) {
		if sharesBackend(part) == nil {
			parts = append(parts, part)
			continue
		}
		parts = append(parts, groupBy(part, func(x runCase) string { return x.Problem.Layout.String() })...)
	}
	return parts
}

// groupBy groups cases by a key, in the order of first appearance.
func groupBy(cases []runCase, key func(runCase) string) [][]runCase {
	index := map[string]int{}
	var out [][]runCase
	for _, x := range cases {
		i, known := index[key(x)]
		if !known {
			i, out = len(out), append(out, nil)
			index[key(x)] = i
		}
		out[i] = append(out[i], x)
	}
	return out
}

// sharesBackend returns the first case that has the same backend as an earlier case, or nil.
func sharesBackend(cases []runCase) *runCase {
	for i := range cases {
		if slices.ContainsFunc(cases[:i], func(x runCase) bool { return x.backend == cases[i].backend }) {
			return &cases[i]
		}
	}
	return nil
}

func withoutBuffers(p ep.Problem) ep.Problem {
	p.MaxTokens, p.Layout = 0, ""
	return p
}

// open creates a run's new directory, or returns nil if the backend did not start.
func (t *interleaving) open(cmd *cobra.Command, l *reports.Loaded, recorded origin) (*openRun, error) {
	b, err := t.backends[recorded.backend].Backend, t.backends[recorded.backend].err
	if err != nil {
		t.missing = append(t.missing, fmt.Errorf("%s: %w", l.Path, err))
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s is left out: %v\n", l.Path, err)
		return nil, cmd.Context().Err()
	}
	if b.Machine().Key() != l.Run.Machine.Key() || sweep.ABI(b) != l.Run.ABI {
		return nil, withCode(exitNotComparable, fmt.Errorf("the run was measured on %s with kernels %s, but this is %s with kernels %s", l.Run.Machine.Key(), l.Run.ABI, b.Machine().Key(), sweep.ABI(b)))
	}
	r := &openRun{InterleavedRun: &sweep.InterleavedRun{Backend: b, Options: &sweep.Options{Seed: l.Run.Seed, Band: recorded.band}}, path: filepath.Join(t.flags.out, l.Name())}
	run := newRun(b, r.Options, commandLine(cmd, "interleave", cmd.Flags().Args()...))
	run.InterleaveID = t.id
	run.Kernels = l.Run.Kernels // configs may have values that --param added
	if r.dir, err = record.CreateDir(r.path, run); err != nil {
		return nil, badInput(fmt.Errorf("--out: %w", err))
	}
	r.Job = sweep.Job{Rounds: t.flags.turns, Log: r.dir, Run: run}
	t.runs = append(t.runs, r)
	return r, nil
}

type startedBackend struct {
	kernels.Backend
	err error
}

// start starts all backends at the same time, because importing PyTorch takes ten seconds.
func (t *interleaving) start(cmd *cobra.Command, recorded []origin) {
	var all sync.WaitGroup
	for _, f := range recorded {
		if t.backends[f.backend] != nil {
			continue
		}
		s := &startedBackend{}
		t.backends[f.backend] = s
		all.Go(func() { s.Backend, s.err = backendOf(cmd, f.backend) })
	}
	all.Wait()
}

// write writes each run's run.json, with the wall time of all runs together.
func (t *interleaving) write() error {
	var err error
	for _, r := range t.runs {
		r.Job.Run.Wall.Starting, r.Job.Run.Wall.Total = t.starting.Seconds(), time.Since(t.began).Seconds()
		err = errors.Join(err, r.dir.WriteRun(r.Job.Run))
	}
	return err
}

func (t *interleaving) close() {
	var all sync.WaitGroup
	for _, b := range t.backends {
		if b.err == nil {
			all.Go(func() { b.Close() }) // results are already written
		}
	}
	all.Wait()
	for _, r := range t.runs {
		r.dir.Close()
	}
}
