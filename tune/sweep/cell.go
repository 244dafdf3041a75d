package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/workloads"
)

// Stages of a search besides those of strategies and measure.AAStage.
const (
	finalsStage  = "finals"  // the best of a search on fresh rounds: the choice is made by them
	crossStage   = "cross"   // winners of other routings
	recheckStage = "recheck" // comparison with the oracle after timing
	refineStage  = "refine"  // both sides of an interval's end between the token counts asked for
	retryStage   = "retry"   // quarantined configs given another chance
)

// cell is one search: a problem under a routing.
type cell struct {
	problem   ep.Problem
	dist      workloads.Distribution
	class     ep.Class
	workload  *workloads.Workload
	space     *search.Space
	counts    []search.Count
	dflt      int
	pairs     []ep.Config // of each kernel of pairs, that of the best halves
	required  []int
	roles     map[int]record.Role
	incumb    int // what the table says, -1 if nothing
	neighbour int // what won at the next smaller token count, -1 if nothing
	runner    *measure.Runner
	hunt      *search.Hunt

	aa      record.AA
	finals  []search.Finalist
	effects map[string]effect // by config key: what is known of it here
	// compromise is what all cells of its group measured because none chose it.
	compromise ep.Config
	uncrossed  bool // an interruption kept choices of other routings from being measured here
	outcome    record.Outcome
	chosen     search.Finalist
}

// effect is a config's time over the default's, from rounds both were in.
type effect struct {
	log  float64 // +Inf when it failed here
	f    search.Finalist
	base search.Finalist // the default in the same rounds
}

// search carries out the search of a cell.
func (s *sweeper) search(ctx context.Context, c *cell) error {
	var err error
	budget := s.opts.searchBudget(s.spent(), s.cellsLeft())
	if c.aa, err = c.runner.AA(ctx, budget.Time); errors.Is(err, measure.ErrDefault) {
		c.fail(c.runner.Failures())
		return nil
	}
	if errors.Is(err, measure.ErrOpen) && !s.unopened && len(s.cells) > 1 {
		s.unopened = true // one workload of many may not fit; a second says the machine is gone
		c.fail(nil)
		c.outcome.Reason = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	s.unopened = false
	s.run.AA = append(s.run.AA, c.aa)
	rng := rand.New(rand.NewPCG(c.runner.Seed("search"), 0))
	c.hunt = search.NewHunt(c.space, c.runner, budget, c.dflt, c.required, rng)
	if err := s.explore(ctx, c); errors.Is(err, search.ErrDefault) {
		c.fail(c.runner.Failures())
		return nil
	} else if err != nil {
		return err
	}
	return s.decide(ctx, c)
}

// explore lets the strategy search; where launch parameters cannot matter only
// what is required is measured.
func (s *sweeper) explore(ctx context.Context, c *cell) error {
	if s.hostBound(c, c.runner.DefaultTime()) == "" {
		return s.strategy.Search(ctx, c.hunt)
	}
	return c.hunt.Measure(ctx, "required", c.hunt.Required, search.ScreenRounds)
}

// confirmation is the policy's, with no fewer rounds than the A/A test needed.
func (s *sweeper) confirmation(c *cell) search.Confirmation {
	conf := s.policy.Confirm
	conf.MaxRounds = max(conf.MaxRounds, c.aa.Rounds)
	return conf
}

// decide measures the finalists, chooses, and makes sure of the choice.
func (s *sweeper) decide(ctx context.Context, c *cell) (err error) {
	conf := s.confirmation(c)
	if c.finals, err = c.hunt.Confirm(ctx, conf, finalsStage); err != nil {
		return err
	}
	if again := s.retried(c); len(again) > 0 && c.runner.Generation == 0 {
		c.runner.Generation = len(s.run.Retried)
		live := slices.Clone(again)
		for _, f := range c.finals {
			live = append(live, f.Point)
		}
		c.hunt.Revive(again)
		if c.finals, err = c.hunt.Settle(ctx, conf, retryStage, live); err != nil {
			return err
		}
	}
	if err := s.recheck(ctx, c); err != nil {
		return err
	}
	for len(c.finals) > 0 {
		win, ties := c.preference(s.policy.Band).Choose(c.finals)
		done, err := s.confirm(ctx, c, c.finals[win], len(ties))
		if err != nil || done {
			return err
		}
		c.finals = slices.Delete(c.finals, win, win+1)
	}
	c.fail(c.runner.Failures())
	return nil
}

func (c *cell) preference(band float64) search.Preference {
	return search.Preference{Band: band, Default: c.dflt, Incumbent: c.incumb, Neighbour: c.neighbour, Cost: c.space.Cost}
}

// retried lists the points of a cell that failed and are to be tried again.
func (s *sweeper) retried(c *cell) []int {
	var out []int
	for point := range c.space.Len() {
		if _, failed := c.runner.Failures()[point]; failed && slices.Contains(s.run.Retried, c.space.Config(point).Key()) {
			out = append(out, point)
		}
	}
	return out
}

// recheck compares the finalists with the oracle again, after they were timed
// and in the process that timed them, and drops the wrong ones.
func (s *sweeper) recheck(ctx context.Context, c *cell) error {
	var points []int
	for _, f := range c.finals {
		points = append(points, f.Point)
	}
	right, err := c.runner.Recheck(ctx, recheckStage, points)
	if err != nil {
		return err
	}
	c.finals = slices.DeleteFunc(c.finals, func(f search.Finalist) bool { return !right[f.Point] })
	c.effects = known(c.finals, c)
	return nil
}

// known indexes what finalists say.
func known(fs []search.Finalist, c *cell) map[string]effect {
	out := map[string]effect{}
	base := slices.IndexFunc(fs, func(f search.Finalist) bool { return f.Point == c.dflt })
	if base < 0 {
		return out
	}
	for _, f := range fs {
		out[c.space.Config(f.Point).Key()] = effect{f.Effect, f, fs[base]}
	}
	return out
}

// confirm measures the choice against the default once more and writes the
// outcome. done is false when the choice failed in that.
func (s *sweeper) confirm(ctx context.Context, c *cell, choice search.Finalist, ties int) (done bool, err error) {
	rounds := max(s.policy.Confirm.MaxRounds/2, c.aa.Rounds)
	win, dflt, err := c.hunt.Duel(ctx, reports.ConfirmStage, choice.Point, rounds)
	if errors.Is(err, search.ErrDefault) {
		c.finals = nil
		return false, nil
	}
	if err != nil || win.Rounds == 0 {
		return false, err
	}
	gain, bound := win.Gain(dflt, c.runner.Seed("gain")), s.hostBound(c, dflt.Median)
	verdict := record.Faster
	switch {
	case bound != "":
		win, verdict = dflt, record.HostBound
	case win.Point == c.dflt:
		verdict = record.KeepsBest
	case gain.Lo <= 1 || gain.Mid-1 <= c.aa.Spread:
		// The finals were lucky: what is not faster on fresh rounds is not
		// worth departing from the default for.
		win, verdict = dflt, record.KeepsBest
	case win.Point == c.incumb:
		verdict = record.KeepsTable
	}
	s.file(c, win, dflt)
	o := &c.outcome
	o.Verdict, o.AA, o.Ties, o.Reason = verdict, c.aa.Spread, ties, s.doubts(c)
	if c.aa.Spread > s.policy.Band {
		o.Verdict = record.Noisy
		o.Reason = fmt.Sprintf("the default against itself varies by %.1f %%, more than the tie band of %.1f %%", 100*c.aa.Spread, 100*s.policy.Band)
	} else if bound != "" {
		o.Reason = bound
	}
	return true, nil
}

// hostBound says why launch parameters cannot matter in a cell, "" when they
// can: the default takes hardly longer than an empty kernel.
func (s *sweeper) hostBound(c *cell, median float64) string {
	if measure.HostBound(median, c.runner.Clock(), s.run.Empty) {
		return fmt.Sprintf("launch parameters cannot matter here: an empty kernel reads %.3g us, the default %.3g us",
			1e6*s.run.Empty[c.runner.Clock()], 1e6*median)
	}
	return ""
}

// flatShare of configs within the band of the default makes a problem flat.
const flatShare = 0.9

// doubts says what a reader should know of a search that is no verdict.
func (s *sweeper) doubts(c *cell) string {
	measured, tied := 0, 0
	for _, i := range c.hunt.Measured() {
		if score := c.hunt.Score(i); !math.IsInf(score, 1) {
			measured++
			if math.Abs(score) <= math.Log1p(s.policy.Band) {
				tied++
			}
		}
	}
	if measured >= 10 && float64(tied) >= flatShare*float64(measured) {
		return fmt.Sprintf("%d of %d configs tie with the default: launch parameters hardly matter here", tied, measured)
	}
	return ""
}

// fail records that nothing could be compared.
func (c *cell) fail(failures map[int]*kernels.Failure) {
	o := &c.outcome
	o.Verdict, o.Reason = record.Failed, "the default did not run"
	for _, point := range []int{c.dflt, measure.Twin} {
		if f := failures[point]; f != nil {
			o.Reason = "the default did not run: " + f.Error()
			break
		}
	}
	o.Default = c.space.Config(c.dflt)
	o.Quarantined = len(failures)
	c.effects = map[string]effect{}
}
