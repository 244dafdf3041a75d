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

// interleaveFlags are the flags of interleave.
type interleaveFlags struct {
	filter runFilter
	turns  int
	out    string
	tables tableFlags
}

func newInterleave() *cobra.Command {
	var f interleaveFlags
	cmd := &cobra.Command{
		Use:   "interleave RUN...",
		Short: "Measure what several runs chose once more, in alternating turns",
		Long: `Take what each sweep chose, with its default, and measure all of them in alternating
turns: a round of each run's library, then the next turn in another order. A drift of
the machine then hits all libraries alike. The backends of all runs are started and
stay; one of them runs at a time. -o gets a run directory for each of the sweeps. All
have to be of one --seed: another one is other work.`,
		Example: `  epbench interleave dsv3-deepep dsv3-nccl -o dsv3-turns
  epbench interleave dsv3-* --op pair --turns 100 -o dsv3-pairs
  epbench table choose dsv3-turns/*`,
		Args: minArgs(2),
		RunE: func(cmd *cobra.Command, paths []string) error { return f.run(cmd, paths) },
	}
	flags(cmd, forProblem, func(s *pflag.FlagSet) { f.filter.bind(s) })
	flags(cmd, forSearch, func(s *pflag.FlagSet) {
		s.IntVar(&f.turns, "turns", 40, "`N` turns: rounds of each config")
	})
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVarP(&f.out, "out", "o", "", "`DIR` for the new run directories, named as the old ones; required")
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
	if err := canTakeTurns(runs); err != nil {
		return err
	}
	t := &turntable{flags: f, backends: map[string]*startedBackend{}, id: time.Now().UTC().Format(time.RFC3339Nano)}
	defer t.close()
	heats, err := t.heats(cmd, runs)
	if err != nil {
		return err
	}
	err = sweep.Interleave(cmd.Context(), heats, func(h sweep.Heat) {
		p := h.Entrants[0].Problem
		fmt.Fprintf(cmd.ErrOrStderr(), "%s, %d tokens, %s: %d in turns\n", p.Op, p.Tokens, h.Routing, len(h.Entrants))
	})
	if err = errors.Join(err, t.write()); err != nil {
		return err
	}
	return f.print(cmd, t)
}

// canTakeTurns refuses runs whose cases cannot stand beside each other. With another seed
// a routing selects other experts, so that no case of one run is a case of the other.
func canTakeTurns(runs []*reports.Loaded) error {
	for i, l := range runs {
		if first := runs[0]; l.Run.Seed != first.Run.Seed {
			return withCode(exitNotComparable, fmt.Errorf("%s was made with --seed %d, %s with --seed %d: their tokens go to other experts; sweep one of them again with the other's seed",
				first.Path, first.Run.Seed, l.Path, l.Run.Seed))
		}
		if slices.ContainsFunc(runs[:i], func(x *reports.Loaded) bool { return x.Name() == l.Name() }) {
			return usagef("two of the runs are named %s, and -o gets a directory of each name: give it once, or rename one", l.Name())
		}
	}
	return nil
}

// print compares what the new run directories hold.
func (f *interleaveFlags) print(cmd *cobra.Command, t *turntable) error {
	var runs []*reports.Loaded
	for _, s := range t.list {
		if l, err := reports.Load(s.path); err == nil { // one that failed from the start holds nothing
			runs = append(runs, l)
		}
	}
	if len(runs) == 0 {
		return t.failure()
	}
	choices, err := reports.Choose(runs)
	if err != nil {
		return withCode(exitNotComparable, err)
	}
	if err := f.tables.print(cmd, reports.ChoiceTable(choices)); err != nil {
		return err
	}
	return t.failure()
}

// failure is an error where a library did not start, or a config failed.
func (t *turntable) failure() error {
	if len(t.missing) > 0 {
		return errors.Join(t.missing...)
	}
	for _, s := range t.list {
		for _, o := range s.Job.Run.Searches {
			if !o.OK() {
				return withCode(exitWrong, fmt.Errorf("%s: %s, %d tokens, %s failed: %s", s.path, o.Problem.Op, o.Problem.Tokens, o.Routing, o.Decision.Reason))
			}
		}
	}
	return nil
}

// turntable holds what takes turns: a side for each run, and a backend for each command
// line, so that two sweeps of one library share its processes.
type turntable struct {
	flags    *interleaveFlags
	id       string
	backends map[string]*startedBackend // by --backend
	list     []*openSide

	missing []error // why backends did not start; the others go on
}

type openSide struct {
	*sweep.Side
	path string
	dir  *record.Dir
}

// seat is an entrant with what its heat is found by.
type seat struct {
	problem ep.Problem // without what each library sets by itself
	work    string
	run     string
	backend string // --backend
	routing string
	seed    uint64
	sweep.Entrant
}

// heats starts the runs' backends and groups the cases.
func (t *turntable) heats(cmd *cobra.Command, runs []*reports.Loaded) ([]sweep.Heat, error) {
	olds := make([]*sweepFlags, len(runs))
	for i, l := range runs {
		var err error
		if olds[i], err = resumed(l.Run.Command); err != nil {
			return nil, badInput(fmt.Errorf("%s: %w", l.Path, err))
		}
	}
	t.start(cmd, olds)
	var seats []seat
	for i, l := range runs {
		old := olds[i]
		s, err := t.side(cmd, l, old)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Path, err)
		}
		if s == nil {
			continue
		}
		for _, c := range l.Cases {
			w, d := c.Winner(), c.Default()
			if w == nil || d == nil || !w.OK() || !d.OK() {
				continue
			}
			seats = append(seats, seat{withoutBuffers(c.Problem), l.Run.Work(c.Problem.Op, w.Config).Key(c.Problem), l.Path, old.backend, c.Routing, c.Seed,
				sweep.Entrant{Side: s.Side, Problem: c.Problem, Config: w.Config, Default: d.Config}})
		}
	}
	if len(seats) == 0 && len(t.missing) > 0 {
		return nil, errors.Join(t.missing...)
	}
	if len(seats) == 0 {
		return nil, usagef("these runs have no config that ran")
	}
	return heatsOf(seats)
}

// heatsOf makes a heat of the seats with one problem, routing and seed. A backend runs one
// workload at a time. Where it has two seats in a heat, in two layouts, the heat is split
// by equal work.
func heatsOf(seats []seat) ([]sweep.Heat, error) {
	var out []sweep.Heat
	for _, group := range gather(seats, func(x seat) string { return fmt.Sprint(x.problem.Key(), x.routing, x.seed) }) {
		parts := [][]seat{group}
		if twice(group) != nil {
			parts = gather(group, func(x seat) string { return x.work })
		}
		for _, part := range parts {
			if x := twice(part); x != nil {
				return nil, usagef("%s: %s, %d tokens, %s is in another run of the same backend; give one of them", x.run, x.problem.Op, x.problem.Tokens, x.routing)
			}
			h := sweep.Heat{Routing: part[0].routing, Seed: part[0].seed}
			for _, x := range part {
				h.Entrants = append(h.Entrants, x.Entrant)
			}
			out = append(out, h)
		}
	}
	return out, nil
}

// gather groups seats by a key, in the order in which keys appear.
func gather(seats []seat, key func(seat) string) [][]seat {
	index := map[string]int{}
	var out [][]seat
	for _, x := range seats {
		i, known := index[key(x)]
		if !known {
			i, out = len(out), append(out, nil)
			index[key(x)] = i
		}
		out[i] = append(out[i], x)
	}
	return out
}

// twice finds a seat whose backend already has one earlier in the list; nil if there is none.
func twice(seats []seat) *seat {
	for i := range seats {
		if slices.ContainsFunc(seats[:i], func(x seat) bool { return x.backend == seats[i].backend }) {
			return &seats[i]
		}
	}
	return nil
}

// withoutBuffers is a problem without what each library sets by itself.
func withoutBuffers(p ep.Problem) ep.Problem {
	p.MaxTokens, p.Layout = 0, ""
	return p
}

// side opens a directory for what a run's backend measures. It is nil where the backend
// does not start.
func (t *turntable) side(cmd *cobra.Command, l *reports.Loaded, old *sweepFlags) (*openSide, error) {
	b, err := t.backends[old.backend].Backend, t.backends[old.backend].err
	if err != nil {
		t.missing = append(t.missing, fmt.Errorf("%s: %w", l.Path, err))
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s is left out: %v\n", l.Path, err)
		return nil, cmd.Context().Err()
	}
	if b.Machine().Key() != l.Run.Machine.Key() || sweep.ABI(b) != l.Run.ABI {
		return nil, withCode(exitNotComparable, fmt.Errorf("measured on %s with kernels %s; here is %s with %s", l.Run.Machine.Key(), l.Run.ABI, b.Machine().Key(), sweep.ABI(b)))
	}
	s := &openSide{Side: &sweep.Side{Backend: b, Options: &sweep.Options{Seed: l.Run.Seed}}, path: filepath.Join(t.flags.out, l.Name())}
	if s.Options.Band, err = parseBand(old.band); err != nil {
		return nil, err
	}
	run := newRun(b, s.Options, commandLine(cmd, "interleave", cmd.Flags().Args()...))
	run.Turns = t.id
	run.Kernels = l.Run.Kernels // what a hook left outside is outside here too: configs keep its value
	if s.dir, err = record.CreateDir(s.path, run); err != nil {
		return nil, badInput(fmt.Errorf("--out: %w", err))
	}
	s.Job = sweep.Job{Rounds: t.flags.turns, Log: s.dir, Run: run}
	t.list = append(t.list, s)
	return s, nil
}

// startedBackend is a backend, or why it did not start.
type startedBackend struct {
	kernels.Backend
	err error
}

// start starts the backends of all runs side by side, one for all runs that have the same: a
// worker that imports PyTorch takes ten seconds.
func (t *turntable) start(cmd *cobra.Command, runs []*sweepFlags) {
	var all sync.WaitGroup
	for _, old := range runs {
		if t.backends[old.backend] != nil {
			continue
		}
		s := &startedBackend{}
		t.backends[old.backend] = s
		all.Go(func() { s.Backend, s.err = backendOf(cmd, old.backend) })
	}
	all.Wait()
}

// write completes the run directories with what was measured.
func (t *turntable) write() error {
	var err error
	for _, s := range t.list {
		err = errors.Join(err, s.dir.WriteRun(s.Job.Run))
	}
	return err
}

func (t *turntable) close() {
	var all sync.WaitGroup
	for _, b := range t.backends {
		if b.err == nil {
			all.Go(func() { b.Close() }) // its results are written; what a worker says at its end changes nothing
		}
	}
	all.Wait()
	for _, s := range t.list {
		s.dir.Close()
	}
}
