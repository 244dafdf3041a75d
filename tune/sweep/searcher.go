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

// searcher is the state of one search: a subject, its candidates, and what was
// found.
type searcher struct {
	subject
	candidates
	runner *measure.Runner
	state  *search.State
	findings
}

// findings are what a search found.
type findings struct {
	aa     record.AA
	as     *searcher // whose space was searched instead of this one's, nil for its own
	finals []search.Finalist
	seen   map[string]sighting // by config key: what the finals and crossings say
	result record.Search
	winner search.Finalist
	// again is, by further session, what the rows will state.
	again [][]search.Finalist
	// stated sums that up, by config key.
	stated map[string]sighting
	// crossings are the winners of the group beside each other, in fresh rounds.
	crossings [][]search.Finalist
	// Of the group of this search: the config that loses least in the worst
	// case, and the compromise, zero where none was measured.
	minimax, compromise ep.Config
	// between says that this is no search: it measured what its neighbours chose, at a
	// token count between theirs.
	between bool
	// uncrossed says that an interrupt kept the winners of other routings from
	// being measured here.
	uncrossed bool
}

// sighting is a config beside the default in the same rounds.
type sighting struct {
	config, dflt search.Finalist
	sessions     int // that the rounds are of, see record.Decision
}

// sighted returns a config beside the default: from the further sessions where they measured
// it, else from the search.
func (f *findings) sighted(c ep.Config) (x sighting, ok bool) {
	if x, ok = f.stated[c.Key()]; !ok {
		x, ok = f.seen[c.Key()]
	}
	return x, ok
}

// effects are the sightings as stat.Effects.
func (f *findings) effects() stat.Effects {
	out := stat.Effects{}
	for key, s := range f.seen {
		out[key] = s.config.Effect
	}
	return out
}

// note keeps what finalists say, if the default is among them.
func (s *searcher) note(finals []search.Finalist) {
	base := slices.IndexFunc(finals, func(f search.Finalist) bool { return f.Point == s.dflt })
	if base < 0 {
		return
	}
	for _, f := range finals {
		s.seen[s.space.Config(f.Point).Key()] = sighting{config: f, dflt: finals[base]}
	}
}

// search carries out one search. A default that fails is a result, not an
// error.
func (s *sweeper) search(ctx context.Context, c *searcher) error {
	var err error
	c.state, c.finals, c.seen = nil, nil, map[string]sighting{}
	budget := s.opts.searchBudget(s.spent, s.left())
	c.aa, err = c.runner.AA(ctx, budget.Time)
	switch {
	case errors.Is(err, search.ErrDefault):
		s.fail(c, failure(c.runner.Failures(), c.dflt))
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
	c.state.Band = s.lab.policy.Band
	err = s.explore(ctx, c)
	if err == nil {
		err = s.conclude(ctx, c)
	}
	if errors.Is(err, search.ErrDefault) || errors.Is(err, search.ErrNoFinalist) {
		s.fail(c, failure(c.runner.Failures(), c.dflt))
		return nil
	}
	return err
}

// explore lets the strategy search. Where launch parameters cannot matter, and where the
// space of a combine was searched already, only the required candidates are measured:
// among them is what that search chose.
func (s *sweeper) explore(ctx context.Context, c *searcher) error {
	if c.as = s.sameCombine(c); c.as != nil {
		c.result.As = c.as.problem.Dispatch
	}
	if c.as == nil && s.lab.hostBound(c.runner)(c.aa.Default) == "" {
		return s.plan.strategy(ctx, c.state)
	}
	return c.state.Measure(ctx, record.StageRequired, c.state.Required, search.ScreenRounds)
}

// sameCombine is a search before this one of the same combine behind another dispatch
// dtype, nil where there is none. Rows travel back as BF16, whatever they came as, and
// the spaces are the same unless a kernel refuses a dtype.
func (s *sweeper) sameCombine(c *searcher) *searcher {
	if c.problem.Op != ep.Combine {
		return nil
	}
	for _, o := range s.searches[:s.done] {
		p := o.problem
		p.Dispatch = c.problem.Dispatch
		if p == c.problem && o.routing.Spec() == c.routing.Spec() && o.as == nil && o.result.Decision.Usable() && s.lab.planner.legalPoints(o.problem) == s.lab.planner.legalPoints(c.problem) {
			return o
		}
	}
	return nil
}

// protocol is the policy's, with no fewer rounds than the A/A test needed.
func (s *sweeper) protocol(c *searcher) search.Protocol { return s.lab.policy.After(c.aa) }

// conclude measures the finalists, compares them with the oracle again, and
// decides.
func (s *sweeper) conclude(ctx context.Context, c *searcher) (err error) {
	if c.finals, err = c.state.Confirm(ctx, s.protocol(c), record.StageFinals); err != nil {
		return err
	}
	if err := s.retry(ctx, c); err != nil {
		return err
	}
	if err := c.recheck(ctx); err != nil {
		return err
	}
	end, err := c.state.Conclude(ctx, c.finals, search.Ending{
		Preference: search.Preference{
			Default: c.dflt, Incumbent: c.incumbent, Neighbour: c.neighbour,
			Cost: func(point int) ep.Cost { return s.lab.cost(c.problem.Op, c.space.Config(point)) },
		},
		Protocol: s.protocol(c), AA: c.aa, HostBound: s.lab.hostBound(c.runner),
	})
	if err != nil {
		return err
	}
	c.result.Decision, c.result.Ties, c.winner = end.Decision, end.Ties, end.Winner
	if c.result.Decision.Reason == "" {
		c.result.Decision.Reason = c.flat(c.result.Decision.Band.Width())
	}
	file(&c.result, c.state, c.runner, end.Winner, end.Default)
	return nil
}

// retry measures failed configs that get another chance beside the finalists.
func (s *sweeper) retry(ctx context.Context, c *searcher) (err error) {
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
	c.finals, err = c.state.Settle(ctx, s.protocol(c), record.StageRetry, live)
	return err
}

// retried lists the points of a search that failed and get another chance.
func (s *sweeper) retried(c *searcher) []int {
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
func (c *searcher) recheck(ctx context.Context) error {
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
	c.note(c.finals)
	return nil
}

// flatShare of configs within the band of the default makes a problem flat.
const flatShare = 0.9

// flat says that launch parameters hardly matter, "" where they do.
func (c *searcher) flat(band float64) string {
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
func (s *sweeper) fail(c *searcher, reason string) {
	dflt := c.space.Config(c.dflt)
	band := record.Band{Policy: s.lab.policy.Band, AA: c.aa.Spread}
	c.result.Decision = stat.Fail(stat.Match{Config: dflt, Default: dflt, Gain: record.One, Band: band}, record.NoDefault, reason)
	c.result.Failed = len(c.runner.Failures())
}
