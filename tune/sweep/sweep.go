package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/tune/table"
)

type sweeper struct {
	plan        *Plan
	opts        *Options
	harness     *harness
	dir         *record.Dir
	run         *record.Run
	watch       stopwatch
	searches    []*activeSearch
	done        int
	refinements map[string]*activeSearch // see refinementKey
	unopened    bool                     // the last search got no session
	crashes     crashCount
}

// A Summary is the result of a sweep's finished searches.
type Summary struct {
	Left    int // searches not done
	Run     *record.Run
	Table   *table.Table // nil if NoTable is set
	NoTable string       // why Table is nil
}

// Run carries out a plan in dir. `run` is dir's record, and `results` is the log of an earlier command. If ctx is
// cancelled, Run returns ctx's error, with a summary if any search finished.
func Run(ctx context.Context, b kernels.Backend, p *Plan, dir *record.Dir, run *record.Run, results []record.Result) (*Summary, error) {
	if p.Options.Time > 0 && p.Probed == nil {
		if err := p.Probe(ctx, b); err != nil {
			return nil, err
		}
	}
	s, err := newSweeper(b, p, dir, run, results)
	if err != nil {
		return nil, err
	}
	if err := s.searchAll(ctx); err != nil && (ctx.Err() == nil || s.done == 0) {
		return nil, errors.Join(err, s.writeRun())
	}
	out := &Summary{Run: run, Left: s.left()}
	s.searches = s.searches[:s.done]
	if err := s.crossAll(ctx); err != nil {
		return nil, err
	}
	if err := s.measureFurtherSessions(ctx); err != nil {
		return nil, err
	}
	if why, _ := s.whyNoTable(); why == "" {
		if err := s.refineAll(ctx); err != nil {
			return nil, err
		}
	}
	if out.Table, out.NoTable, err = s.table(); err != nil {
		return nil, err
	}
	s.warn()
	if ctx.Err() == nil {
		run.Finished = time.Now().UTC()
	}
	if err := s.writeRun(); err != nil {
		return nil, err
	}
	return out, ctx.Err()
}

func newSweeper(b kernels.Backend, p *Plan, dir *record.Dir, run *record.Run, results []record.Result) (*sweeper, error) {
	known, err := measure.IndexBlocks(results)
	if err != nil {
		return nil, err
	}
	s := &sweeper{plan: p, opts: p.Options, harness: newHarness(b, p.planner, dir), dir: dir, run: run, refinements: map[string]*activeSearch{},
		crashes: crashCount{similar: map[ep.Problem]int{}}}
	s.harness.recorded, s.harness.empty = known, run.Empty
	s.harness.lap.Start()
	s.watch = startWatch(run, p.Options.Began)
	s.harness.wall.Starting = time.Since(s.watch.began).Seconds()
	run.Band = p.Policy.Band
	run.AA, run.Spaces, run.Workloads, run.Searches, run.Regrets, run.Warnings = nil, nil, nil, nil, nil, nil
	run.Finished, run.Planned, run.Budget = time.Time{}, len(p.Searches), p.Options.Time.Seconds()
	for i, planned := range p.Searches {
		s.searches = append(s.searches, &activeSearch{routedProblem: planned.routedProblem, index: i})
		for _, space := range planned.Spaces { // routings share spaces
			same := func(i record.SpaceInfo) bool { return i.Kernel == space.Kernel && i.Problem == space.Problem }
			if !slices.ContainsFunc(run.Spaces, same) {
				run.Spaces = append(run.Spaces, space)
			}
		}
	}
	return s, nil
}

// searchAll runs the searches in order, because each search begins with earlier winners.
func (s *sweeper) searchAll(ctx context.Context) error {
	if err := s.announce(); err != nil {
		return err
	}
	for _, c := range s.searches {
		if err := s.start(c); err != nil {
			return err
		}
		s.report(c, "")
		err := s.runSearch(ctx, c)
		if s.measuredAnew(c, err) {
			err = s.runSearch(ctx, c)
		}
		if err := s.finish(c, err); err != nil {
			return err
		}
		if err := s.crashes.add(c); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweeper) start(c *activeSearch) error {
	if err := c.draw(s.opts.Seed); err != nil {
		return err
	}
	c.result, c.sessionsAhead = c.newResult(), s.harness.policy.Sessions > 0
	if err := s.addRequired(c); err != nil {
		return err
	}
	c.runner = s.harness.runner(&c.routedProblem, c.space, c.dflt)
	c.runner.Roles, c.runner.Progress = c.roles, func(stage record.Stage) { s.report(c, stage) }
	s.run.Workloads = append(s.run.Workloads, c.record())
	return nil
}

// measuredAnew reports whether a search must be measured again. A resumed sweep tries some failed configs again
// (run.Retried). If they now succeed, the search may need other measurements than those in its log (ErrDiverged).
func (s *sweeper) measuredAnew(c *activeSearch, err error) bool {
	if !errors.Is(err, measure.ErrDiverged) || len(s.run.Retried) == 0 || c.runner.Generation > 0 {
		return false
	}
	c.runner.Generation = len(s.run.Retried)
	return true
}

func (s *sweeper) finish(c *activeSearch, err error) error {
	if closed := c.runner.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	s.done++
	if c.state != nil {
		s.run.AA = append(s.run.AA, c.aa)
	}
	s.run.Searches = append(s.run.Searches, c.result)
	s.report(c, "")
	return s.writeRun()
}

func (s *sweeper) report(c *activeSearch, stage record.Stage) {
	if s.opts.Progress != nil {
		s.opts.Progress(Event{s.done, len(s.searches), c.title(), stage})
	}
}

func (s *sweeper) left() int { return len(s.searches) - s.done }

// half returns the search for `op`, dispatch or combine, that belongs to the pair search c. It may return nil.
func (s *sweeper) half(c *activeSearch, op ep.Op) *activeSearch {
	p := c.problem
	p.Op = op
	if !ReducesPrecision(s.harness.planner.kernels, p) {
		p.Precision = ep.Full
	}
	for _, o := range s.searches {
		if o.problem == p && o.routing.Spec() == c.routing.Spec() {
			return o
		}
	}
	return nil
}

func (s *sweeper) warn() {
	add := func(c *activeSearch, text string) {
		if text != "" {
			s.run.Warnings = append(s.run.Warnings, c.title()+": "+text)
		}
	}
	if n := s.hurriedSearches(); n > 0 {
		s.run.Warnings = append(s.run.Warnings,
			fmt.Sprintf("%d of %d searches measured only the required configs: raise --budget", n, len(s.searches)))
	}
	if s.harness.policy.Sessions == 0 && s.harness.planner.machine.GPUs > 0 {
		s.run.Warnings = append(s.run.Warnings, oneSession)
	}
	if len(s.opts.Distributions) < fewestForAll {
		s.run.Warnings = append(s.run.Warnings, "a table from one routing has no rows for callers who do not know their routing: give two or more routings with --routing")
	}
	s.run.Warnings = append(s.run.Warnings, workerLosses(s.harness.backend)...)
	s.run.Warnings = append(s.run.Warnings, s.edgeWarnings()...)
	for _, c := range s.searches {
		add(c, c.result.Decision.Reason)
	}
	for _, c := range s.searches {
		add(c, c.runner.ThrottleWarning())
	}
	for _, c := range s.searches {
		for _, w := range c.winner.Warnings {
			add(c, w)
		}
	}
}

// workerLosses warns of workers that were lost although no config failed.
func workerLosses(b kernels.Backend) []string {
	r, ok := b.(kernels.Restarting)
	if !ok || len(r.Losses()) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the worker was lost and started again %s, and no config was the cause: %s; find the program that ends or stalls processes on this machine",
		ep.Count(len(r.Losses()), "time"), r.Losses()[0])}
}

// hurriedSearches counts the searches that had time for only the required configs.
func (s *sweeper) hurriedSearches() int {
	n := 0
	for _, c := range s.searches {
		if c.state == nil || c.sibling != nil || s.harness.hostBound(c.runner)(c.aa.Default) != "" {
			continue
		}
		if measured := len(c.state.Measured()); measured <= len(c.required)+1 && measured < c.space.Len() {
			n++
		}
	}
	return n
}
