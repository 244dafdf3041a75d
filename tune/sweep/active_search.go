package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/sweep/measure"
)

// An activeSearch is one search of a running sweep, with its results.
type activeSearch struct {
	routedProblem
	candidates
	index  int // in Plan.Searches
	runner *measure.Runner
	state  *search.State
	searchResults
}

type searchResults struct {
	aa         record.AA
	sibling    *activeSearch // see searchedSibling
	finals     []search.Finalist
	conclusion search.Conclusion
	result     record.Search
	winner     search.Finalist

	// These maps have config keys. overSessions holds the results of sessions after the search, and is nil before.
	measured, overSessions map[string]versusDefault

	furtherSessions [][]search.Finalist
	crossings       [][]search.Finalist // rounds with the winners of all routings

	// minimax is the config with the smallest worst loss over routings. compromise is the result of sweeper.compromise,
	// or zero.
	minimax, compromise ep.Config

	sessionsAhead   bool // further sessions follow, and then the decision is made again
	isRefinement    bool // measures only the winners of neighbouring token counts
	crossingMissing bool // an interrupt came before the winners of other routings were measured

	date   time.Time // of the last round
	maxErr map[string]float64
}

// versusDefault holds the times of a config and of the default in the same rounds.
type versusDefault struct {
	config, dflt search.Finalist
	sessions     int // see record.Decision
}

// known returns the results from which table rows are made, by config key. After further sessions it returns only the
// results of these sessions, so that gain and regret come from the same rounds.
func (f *searchResults) known() map[string]versusDefault {
	if f.overSessions != nil {
		return f.overSessions
	}
	return f.measured
}

func (f *searchResults) versus(c ep.Config) (x versusDefault, ok bool) {
	x, ok = f.known()[c.Key()]
	return x, ok
}

func (f *searchResults) effects() stat.Effects {
	out := stat.Effects{}
	for key, s := range f.known() {
		out[key] = s.config.Effect
	}
	return out
}

func (c *activeSearch) keep(finals []search.Finalist) {
	maps.Copy(c.measured, c.versusDefault(finals, 0))
	c.keepRunner()
}

func (c *activeSearch) keepRunner() {
	c.date, c.maxErr = c.runner.Latest(), map[string]float64{}
	for point := range c.space.Len() {
		if e := c.runner.MaxErr(point); e > 0 {
			c.maxErr[c.space.Config(point).Key()] = e
		}
	}
}

// versusDefault pairs each finalist with the default. If the default is missing, it returns nil.
func (c *activeSearch) versusDefault(finals []search.Finalist, sessions int) map[string]versusDefault {
	base := slices.IndexFunc(finals, isPoint(c.dflt))
	if base < 0 {
		return nil
	}
	out := map[string]versusDefault{}
	for _, f := range finals {
		if f.Point != search.Twin {
			out[c.space.Config(f.Point).Key()] = versusDefault{f, finals[base], sessions}
		}
	}
	return out
}

// runSearch carries out one search. A default that fails is a result, not an error.
func (s *sweeper) runSearch(ctx context.Context, c *activeSearch) error {
	c.state, c.finals, c.measured = nil, nil, map[string]versusDefault{}
	budget, err := s.allot()
	if err != nil {
		return err
	}
	if why := s.crashes.whySkip(c); why != "" {
		s.fail(c, why)
		return nil
	}
	c.aa, err = s.harness.measureAA(ctx, c.runner, budget.Time)
	if errors.Is(err, search.ErrDefault) && c.runner.Generation == 0 && slices.Contains(s.retried(c), c.dflt) {
		c.runner.Generation = len(s.run.Retried)
		c.aa, err = s.harness.measureAA(ctx, c.runner, budget.Time)
	}
	switch {
	case errors.Is(err, search.ErrDefault):
		s.fail(c, defaultFailure(c.runner.Failures(), c.dflt))
		return nil
	case errors.Is(err, measure.ErrOpen) && !s.unopened && len(s.searches) > 1:
		s.unopened = true // if the next search cannot begin either, the machine is lost
		s.fail(c, err.Error())
		return nil
	case err != nil:
		return err
	}
	s.unopened = false
	c.state = search.NewState(c.space, c.runner, budget, c.dflt, c.required, rand.New(rand.NewPCG(c.runner.Seed("search"), 0)))
	c.state.Band, c.state.AARounds = s.harness.policy.Band, c.aa.Rounds
	err = s.explore(ctx, c)
	if err == nil {
		err = s.conclude(ctx, c)
	}
	if errors.Is(err, search.ErrDefault) || errors.Is(err, search.ErrNoFinalist) {
		s.fail(c, defaultFailure(c.runner.Failures(), c.dflt))
		return nil
	}
	return err
}

// explore runs the strategy. It measures only the required candidates if launch parameters cannot matter, or if an
// earlier search had the same combine.
func (s *sweeper) explore(ctx context.Context, c *activeSearch) error {
	if c.sibling = s.searchedSibling(c); c.sibling != nil {
		c.result.SiblingDType = c.sibling.problem.Dispatch
	}
	if c.sibling == nil && s.harness.hostBound(c.runner)(c.aa.Default) == "" {
		return s.plan.strategy(ctx, c.state)
	}
	return c.state.Measure(ctx, record.StageRequired, c.state.Required, search.ScreenRounds)
}

// searchedSibling returns an earlier search of the same combine with another dispatch dtype, or nil. Combines always
// send BF16, so both searches have the same combine.
func (s *sweeper) searchedSibling(c *activeSearch) *activeSearch {
	if c.problem.Op != ep.Combine {
		return nil
	}
	for _, o := range s.searches[:s.done] {
		p := o.problem
		p.Dispatch = c.problem.Dispatch
		if p == c.problem && o.routing.Spec() == c.routing.Spec() && o.sibling == nil && o.result.Decision.Usable() && s.harness.planner.legalPoints(o.problem) == s.harness.planner.legalPoints(c.problem) {
			return o
		}
	}
	return nil
}

func (s *sweeper) protocol(c *activeSearch) search.Protocol { return s.harness.policy.After(c.aa) }

func (s *sweeper) conclude(ctx context.Context, c *activeSearch) (err error) {
	if c.finals, err = c.state.Finals(ctx, s.protocol(c), record.StageFinals); err != nil {
		return err
	}
	if err := s.retry(ctx, c); err != nil {
		return err
	}
	if err := c.recheck(ctx); err != nil {
		return err
	}
	end, err := c.state.Conclude(ctx, c.finals, search.DecisionRules{
		Preference: search.Preference{
			Default: c.dflt, Incumbent: c.incumbent, Neighbour: c.neighbour,
			Cost: func(point int) ep.Cost { return s.harness.cost(c.problem.Op, c.space.Config(point)) },
		},
		Protocol: s.protocol(c), AA: c.aa, HostBound: s.harness.hostBound(c.runner),
	})
	if err != nil {
		return err
	}
	c.conclusion, c.result.Decision, c.result.Ties, c.winner = end, end.Decision, end.Ties, end.Winner
	if c.result.Decision.Reason == "" {
		c.result.Decision.Reason = c.flatReason(c.result.Decision.Band.Width())
	}
	recordTimes(&c.result, c.state, c.runner, end.Winner, end.Default)
	c.keepRunner()
	return nil
}

func (s *sweeper) retry(ctx context.Context, c *activeSearch) (err error) {
	again := s.retried(c)
	if len(again) == 0 || c.runner.Generation > 0 {
		return nil
	}
	c.runner.Generation = len(s.run.Retried)
	live := slices.Clone(again)
	for _, f := range c.finals {
		live = append(live, f.Point)
	}
	c.state.Revive(again)
	c.finals, err = c.state.FinalsOf(ctx, s.protocol(c), record.StageRetry, live)
	return err
}

func (s *sweeper) retried(c *activeSearch) []int {
	var out []int
	for point := range c.space.Len() {
		if _, failed := c.runner.Failures()[point]; failed && slices.Contains(s.run.Retried, c.space.Config(point).Key()) {
			out = append(out, point)
		}
	}
	return out
}

// recheck compares the finalists' outputs with the oracle, in the process that timed the finalists. It drops finalists
// with wrong outputs. If the default is wrong, it returns search.ErrDefault.
func (c *activeSearch) recheck(ctx context.Context) error {
	var points []int
	for _, f := range c.finals {
		points = append(points, f.Point)
	}
	right, err := c.runner.Recheck(ctx, record.StageRecheck, points)
	if err != nil {
		return err
	}
	if !right[c.dflt] {
		return search.ErrDefault
	}
	c.finals = slices.DeleteFunc(c.finals, func(f search.Finalist) bool { return !right[f.Point] })
	c.keep(c.finals)
	return nil
}

const flatShare = 0.9

func (c *activeSearch) flatReason(band float64) string {
	measured, tied := 0, 0
	for _, i := range c.state.Measured() {
		if score := c.state.Score(i); !math.IsInf(score, 1) {
			measured++
			if math.Abs(score) <= math.Log1p(band) {
				tied++
			}
		}
	}
	if measured < 10 || float64(tied) < flatShare*float64(measured) {
		return ""
	}
	return fmt.Sprintf("%d of %d configs tie with the default: launch parameters hardly matter here", tied, measured)
}

func (s *sweeper) fail(c *activeSearch, reason string) {
	dflt := c.space.Config(c.dflt)
	band := record.Band{Policy: s.harness.policy.Band, AA: c.aa.Spread}
	c.result.Decision = stat.Fail(stat.Comparison{Config: dflt, Default: dflt, Gain: stat.Exactly(0), Band: band}, record.NoDefault, reason)
	c.result.Failed = len(c.runner.Failures())
}
