package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/tune/table"
)

// sweeper is a sweep in progress.
type sweeper struct {
	opts     *Options
	backend  kernels.Backend
	planner  planner
	policy   measure.Policy
	strategy search.Strategy
	dir      *record.Dir
	run      *record.Run
	known    *measure.Known
	profile  measure.Profile
	cells    []*cell
	done     int
	before   time.Duration    // spent by finished searches
	between  map[string]*cell // refined token counts, by problem and routing
	unopened bool             // the last search found no session
}

// Outcome is a finished sweep, or what an interrupted one had finished.
type Outcome struct {
	Left    int // searches left out
	Run     *record.Run
	Table   *table.Table // nil when nothing may be written
	NoTable string       // why there is none
	Regrets []reports.Regret
	Profile measure.Profile
	Wall    time.Duration
}

// Run sweeps into dir, which was created or reopened with run; results are
// those already in its log. Cancelling ctx ends it with ctx's error,
// everything measured on disk, and an outcome of the searches that were
// finished by then, nil when none was.
func Run(ctx context.Context, b kernels.Backend, opts *Options, dir *record.Dir, run *record.Run, results []record.Result) (*Outcome, error) {
	start := time.Now()
	s, err := newSweeper(b, opts, dir, run, results)
	if err != nil {
		return nil, err
	}
	if err := s.searchAll(ctx); err != nil && (ctx.Err() == nil || s.done == 0) {
		return nil, err
	}
	out := &Outcome{Run: run, Left: s.cellsLeft()}
	s.cells = s.cells[:s.done]
	if out.Regrets, err = s.crossAll(ctx); err != nil {
		return nil, err
	}
	if out.Table, out.NoTable, err = s.table(ctx); err != nil {
		return nil, err
	}
	s.warn()
	if ctx.Err() == nil {
		run.Finished = time.Now().UTC()
	}
	out.Profile, out.Wall = s.profile, time.Since(start)
	if err := dir.WriteRun(run); err != nil {
		return nil, err
	}
	return out, ctx.Err()
}

func newSweeper(b kernels.Backend, opts *Options, dir *record.Dir, run *record.Run, results []record.Result) (*sweeper, error) {
	strategy, err := search.ParseStrategy(opts.Strategy)
	if err != nil {
		return nil, err
	}
	s := &sweeper{opts: opts, backend: b, policy: measure.PolicyFor(b.Machine()), strategy: strategy, dir: dir, run: run, between: map[string]*cell{}}
	s.planner = planner{machine: b.Machine(), kernels: b.Kernels(), opts: opts}
	if s.known, err = measure.NewKnown(results); err != nil {
		return nil, err
	}
	run.AA, run.Spaces, run.Workloads, run.Outcomes, run.Warnings = nil, nil, nil, nil, nil
	s.cells, err = s.planner.cells()
	return s, err
}

// searchAll runs the searches in order: dispatch and combine before the pairs
// made of their winners, small token counts first, since each search is told
// what won before it.
func (s *sweeper) searchAll(ctx context.Context) error {
	if err := s.foretell(); err != nil {
		return err
	}
	for _, c := range s.cells {
		if err := s.start(c); err != nil {
			return err
		}
		s.report(c, "", nil)
		err := s.search(ctx, c)
		if s.reopened(c, err) {
			err = s.search(ctx, c)
		}
		if err := s.finish(c, err); err != nil {
			return err
		}
	}
	return nil
}

// start makes the workload, the space and the runner of a cell.
func (s *sweeper) start(c *cell) error {
	if err := c.draw(s.opts.Seed); err != nil {
		return err
	}
	if err := s.populate(c); err != nil {
		return err
	}
	c.runner = &measure.Runner{
		Backend: s.backend, Workload: c.workload, Space: c.space, Default: c.dflt, Roles: c.roles,
		Policy: s.policy, Log: s.dir, Known: s.known, Profile: &s.profile, Foretold: true,
		Progress: func(stage string, _ int) { s.report(c, stage, nil) },
	}
	s.run.Workloads = append(s.run.Workloads, c.record())
	if c.problem.Op != ep.Pair && !slices.ContainsFunc(s.run.Spaces, func(i record.SpaceInfo) bool { return i.Problem == c.problem.Key() }) {
		s.run.Spaces = append(s.run.Spaces, c.spaces()...)
	}
	return nil
}

// reopened reports whether a retry elsewhere changed what a cell is to measure,
// so that its log no longer fits: the cell is measured anew, beside the log.
func (s *sweeper) reopened(c *cell, err error) bool {
	if !errors.Is(err, measure.ErrDiverged) || len(s.run.Retried) == 0 || c.runner.Generation > 0 {
		return false
	}
	c.runner.Generation = len(s.run.Retried)
	return true
}

// finish files the outcome of a search that ended with err.
func (s *sweeper) finish(c *cell, err error) error {
	s.before += c.runner.Spent()
	if closed := c.runner.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	s.done++
	s.run.Outcomes = append(s.run.Outcomes, c.outcome)
	s.report(c, "", &c.outcome)
	return s.dir.WriteRun(s.run)
}

func (s *sweeper) report(c *cell, stage string, o *record.Outcome) {
	if s.opts.Progress != nil {
		s.opts.Progress(Event{s.done, len(s.cells), c.title(), stage, o})
	}
}

// spent is the recorded time of all finished searches.
func (s *sweeper) spent() time.Duration { return s.before }

func (s *sweeper) cellsLeft() int { return len(s.cells) - s.done }

// beside finds the search of an op that belongs to c, nil if there is none.
func (s *sweeper) beside(c *cell, op ep.Op) *cell {
	p := c.problem
	p.Op = op
	if !Loosens(s.planner.kernels, op) {
		p.Precision = ep.Full
	}
	for _, o := range s.cells {
		if o.problem == p && o.dist.Spec() == c.dist.Spec() {
			return o
		}
	}
	return nil
}

// groups are the cells that differ in routing alone.
func (s *sweeper) groups() [][]*cell {
	var out [][]*cell
	for _, c := range s.cells {
		i := slices.IndexFunc(out, func(g []*cell) bool { return g[0].problem == c.problem })
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], c)
	}
	return out
}

// warn gathers what a reader of the run should know: of all searches, reasons of
// verdicts, then throttling, then noise.
func (s *sweeper) warn() {
	add := func(c *cell, text string) {
		if text != "" {
			s.run.Warnings = append(s.run.Warnings, c.title()+": "+text)
		}
	}
	if n := s.hurried(); n > 0 {
		s.run.Warnings = append(s.run.Warnings,
			fmt.Sprintf("%d of %d searches ended with what every search begins with: give --budget more", n, len(s.cells)))
	}
	for _, c := range s.cells {
		add(c, c.outcome.Reason)
	}
	for _, c := range s.cells {
		add(c, c.runner.Throttled())
	}
	for _, c := range s.cells {
		for _, w := range c.chosen.Warnings {
			add(c, w)
		}
	}
}

// hurried counts searches whose budget was gone before the strategy chose
// anything itself.
func (s *sweeper) hurried() int {
	n := 0
	for _, c := range s.cells {
		if c.hunt == nil || s.hostBound(c, c.runner.DefaultTime()) != "" {
			continue
		}
		if measured := len(c.hunt.Measured()); measured <= len(c.required)+1 && measured < c.space.Len() {
			n++
		}
	}
	return n
}
