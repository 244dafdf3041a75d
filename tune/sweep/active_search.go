package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/sweep/measure"
)

// activeSearch is the state of one search: a subject, its candidates, and what was
// found.
type activeSearch struct {
	subject
	candidates
	runner *measure.Runner
	state  *search.State
	searchResults
}

// searchResults are what a search found.
type searchResults struct {
	aa       record.AA
	sibling  *activeSearch // whose space was searched instead of this one's, nil for its own
	finals   []search.Finalist
	measured map[string]versusDefault // by config key: what the finals and crossings say
	result   record.Search
	winner   search.Finalist
	// furtherSessions is, by further session, what the rows will state.
	furtherSessions [][]search.Finalist
	// overSessions sums that up, by config key.
	overSessions map[string]versusDefault
	// crossings are the winners of the group beside each other, in fresh rounds.
	crossings [][]search.Finalist
	// Of the group of this search: the config that loses least in the worst
	// case, and the compromise, zero where none was measured.
	minimax, compromise ep.Config
	// isRefinement says that this is no search: it measured what its neighbours chose, at a
	// token count between theirs.
	isRefinement bool
	// crossingMissing says that an interrupt kept the winners of other routings from
	// being measured here.
	crossingMissing bool
}

// versusDefault is a config beside the default in the same rounds.
type versusDefault struct {
	config, dflt search.Finalist
	sessions     int // that the rounds are of, see record.Decision
}

// versus returns a config beside the default: from the further sessions where they measured
// it, else from the search.
func (f *searchResults) versus(c ep.Config) (x versusDefault, ok bool) {
	if x, ok = f.overSessions[c.Key()]; !ok {
		x, ok = f.measured[c.Key()]
	}
	return x, ok
}

// effects are the sightings as stat.Effects.
func (f *searchResults) effects() stat.Effects {
	out := stat.Effects{}
	for key, s := range f.measured {
		out[key] = s.config.Effect
	}
	return out
}

// keep keeps what finalists say, if the default is among them.
func (s *activeSearch) keep(finals []search.Finalist) {
	base := slices.IndexFunc(finals, func(f search.Finalist) bool { return f.Point == s.dflt })
	if base < 0 {
		return
	}
	for _, f := range finals {
		s.measured[s.space.Config(f.Point).Key()] = versusDefault{config: f, dflt: finals[base]}
	}
}

// runSearch carries out one search. A default that fails is a result, not an
// error.
func (s *sweeper) runSearch(ctx context.Context, c *activeSearch) error {
	var err error
	c.state, c.finals, c.measured = nil, nil, map[string]versusDefault{}
	budget := s.opts.searchBudget(s.spent, s.left())
	c.aa, err = c.runner.AA(ctx, budget.Time)
	switch {
	case errors.Is(err, search.ErrDefault):
		s.fail(c, defaultFailure(c.runner.Failures(), c.dflt))
		return nil
	case errors.Is(err, measure.ErrOpen) && !s.unopened && len(s.searches) > 1:
		s.unopened = true // one workload of many may not fit; a second says that the machine is gone
		s.fail(c, err.Error())
		return nil
	case err != nil:
		return err
	}
	s.unopened = false
	c.state = search.NewState(c.space, c.runner, budget, c.dflt, c.required, rand.New(rand.NewPCG(c.runner.Seed("search"), 0)))
	c.state.Band = s.harness.policy.Band
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

// explore lets the strategy search. Where launch parameters cannot matter, and where the
// space of a combine was searched already, only the required candidates are measured:
// among them is what that search chose.
func (s *sweeper) explore(ctx context.Context, c *activeSearch) error {
	if c.sibling = s.searchedSibling(c); c.sibling != nil {
		c.result.As = c.sibling.problem.Dispatch
	}
	if c.sibling == nil && s.harness.hostBound(c.runner)(c.aa.Default) == "" {
		return s.plan.strategy(ctx, c.state)
	}
	return c.state.Measure(ctx, record.StageRequired, c.state.Required, search.ScreenRounds)
}

// searchedSibling is a search before this one of the same combine behind another dispatch
// dtype, nil where there is none. Rows travel back as BF16, whatever they came as, and
// the spaces are the same unless a kernel refuses a dtype.
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

// protocol is the policy's, with no fewer rounds than the A/A test needed.
func (s *sweeper) protocol(c *activeSearch) search.Protocol { return s.harness.policy.After(c.aa) }

// conclude measures the finalists, compares them with the oracle again, and
// decides.
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
	c.result.Decision, c.result.Ties, c.winner = end.Decision, end.Ties, end.Winner
	if c.result.Decision.Reason == "" {
		c.result.Decision.Reason = c.flatReason(c.result.Decision.Band.Width())
	}
	recordTimes(&c.result, c.state, c.runner, end.Winner, end.Default)
	return nil
}

// retry measures failed configs that get another chance beside the finalists.
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

// retried lists the points of a search that failed and get another chance.
func (s *sweeper) retried(c *activeSearch) []int {
	var out []int
	for point := range c.space.Len() {
		if _, failed := c.runner.Failures()[point]; failed && slices.Contains(s.run.Retried, c.space.Config(point).Key()) {
			out = append(out, point)
		}
	}
	return out
}

// recheck compares the finalists with the oracle again, after they were timed
// and in the process that timed them, and drops the wrong ones. A default that
// is wrong ends the search.
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

// flatShare of configs within the band of the default makes a problem flat.
const flatShare = 0.9

// flatReason says that launch parameters hardly matter, "" where they do.
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

// fail records that nothing could be compared.
func (s *sweeper) fail(c *activeSearch, reason string) {
	dflt := c.space.Config(c.dflt)
	band := record.Band{Policy: s.harness.policy.Band, AA: c.aa.Spread}
	c.result.Decision = stat.Fail(stat.Comparison{Config: dflt, Default: dflt, Gain: record.One, Band: band}, record.NoDefault, reason)
	c.result.Failed = len(c.runner.Failures())
}
