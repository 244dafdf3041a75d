package sweep

import (
	"context"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/table"
)

// midWinner says which of two neighbouring picks serves a token count between theirs.
type midWinner int

const (
	lowerWins   midWinner = iota // the pick of fewer tokens
	upperWins                    // the pick of more tokens
	defaultWins                  // the default: neither is faster than it by more than the band
)

// bound puts the end between two stretches whose configs differ: at the geometric
// midpoint of the token counts on either side, after one more token count between them
// was measured where time allows. Where neither config is faster than the default there,
// the default gets a stretch of its own, between.
func (s *sweeper) bound(ctx context.Context, low, high *tokenRange) (between *tokenRange, err error) {
	mid := table.Midpoint(low.hi, high.lo)
	if low.hi < mid && mid < high.lo {
		left, right := low.last(), high.picks[0]
		at, there, err := s.measureMidpoint(ctx, mid, left, right)
		switch {
		case err != nil:
			return nil, err
		case len(there) == 0: // nothing was measured
		case at == lowerWins:
			low.picks, low.hi = append(low.picks, s.makeChoice(there, left.configAt(there))), mid
		case at == upperWins:
			high.picks, high.lo = slices.Insert(high.picks, 0, s.makeChoice(there, right.configAt(there))), mid
		default:
			between = &tokenRange{[]rowChoice{s.makeChoice(there, there.defaultConfig())}, mid, mid}
			s.abut(low, between)
			s.abut(between, high)
			return between, nil
		}
	}
	s.abut(low, high)
	return nil, nil
}

// abut lets two stretches meet at the geometric midpoint between them, as far as their
// configs can run: token counts that neither serves stay without a row.
func (s *sweeper) abut(low, high *tokenRange) {
	mid := max(low.hi, min(table.Midpoint(low.hi, high.lo), high.lo-1))
	a, b := low.last(), high.picks[0]
	low.hi += sort.Search(mid-low.hi, func(i int) bool { return !s.serves(a, low.hi+i+1) })
	high.lo -= sort.Search(high.lo-mid-1, func(i int) bool { return !s.serves(b, high.lo-i-1) })
}

// serves reports whether a pick's config can run with so many tokens.
func (s *sweeper) serves(p rowChoice, tokens int) bool {
	if p.dflt {
		return true
	}
	q := atTokens(p.searches[0].problem, tokens)
	k, err := kernels.Find(s.harness.planner.kernels, q.Op, p.config.Kernel)
	return err == nil && k.Check(s.harness.planner.machine, q, p.config) == nil
}

// atTokens is a problem with another token count. One sized for its own tokens is sized for
// these.
func atTokens(p ep.Problem, tokens int) ep.Problem {
	room := p.MaxTokens
	if room == max(p.Tokens, 1) {
		room = max(tokens, 1)
	}
	return p.AtTokens(tokens, room)
}

// defaultConfig is the default at the token count of a group.
func (g group) defaultConfig() ep.Config { return g[0].result.Decision.Default }

// configAt is the config that a pick means at another token count: a default follows it.
func (p rowChoice) configAt(there group) ep.Config {
	if p.dflt {
		return there.defaultConfig()
	}
	return p.config
}

// measureMidpoint measures two picks and the default at a token count between theirs, under every
// routing of the first, and says which loses least there. A tie goes to the default, then
// to the lower pick. there is empty where nothing could be measured.
func (s *sweeper) measureMidpoint(ctx context.Context, tokens int, low, high rowChoice) (_ midWinner, there group, err error) {
	if ctx.Err() != nil || s.opts.Time > 0 && s.spent > s.opts.Time {
		return lowerWins, nil, nil
	}
	for _, near := range low.searches.withRoutingsOf(high.searches) {
		c, err := s.measureBetween(ctx, near, tokens, low, high)
		if err != nil || c.crossingMissing {
			return lowerWins, nil, err
		}
		there = append(there, c)
	}
	best, _ := s.leastWorstLoss(there, there.fasterSomewhere([]ep.Config{low.configAt(there), high.configAt(there), there.defaultConfig()}), []string{there.defaultConfig().Key(), low.config.Key()})
	switch best.Key() {
	case low.configAt(there).Key():
		return lowerWins, there, nil
	case high.configAt(there).Key():
		return upperWins, there, nil
	}
	return defaultWins, there, nil
}

// withRoutingsOf adds to the searches of a group those of another whose routings it lacks.
func (g group) withRoutingsOf(other group) group {
	out := slices.Clone(g)
	for _, o := range other {
		if !slices.ContainsFunc(g, func(c *activeSearch) bool { return c.routing.Spec() == o.routing.Spec() }) {
			out = append(out, o)
		}
	}
	return out
}

// measureBetween measures the default, and the configs of two picks that do not keep it, at a
// token count between those asked for. Each is opened once; further configs are crossed
// into it.
func (s *sweeper) measureBetween(ctx context.Context, near *activeSearch, tokens int, picks ...rowChoice) (*activeSearch, error) {
	p := atTokens(near.problem, tokens)
	key := p.Key() + " " + near.routing.Spec()
	c := s.refinements[key]
	if c == nil {
		var err error
		if c, err = s.newRefinement(p, near); err != nil {
			return nil, err
		}
		s.refinements[key] = c
	}
	configs := []ep.Config{c.space.Config(c.dflt)}
	for _, p := range picks {
		if !p.dflt {
			configs = append(configs, p.config)
		}
	}
	return c, s.cross(ctx, c, configs)
}

// newRefinement makes a search that measures what it is given and decides
// nothing.
func (s *sweeper) newRefinement(p ep.Problem, near *activeSearch) (*activeSearch, error) {
	c := &activeSearch{subject: subject{problem: p, routing: near.routing, class: near.class}}
	c.aa, c.measured, c.isRefinement = near.aa, map[string]versusDefault{}, true
	if err := c.draw(s.opts.Seed); err != nil {
		return nil, err
	}
	c.result = c.newResult()
	c.result.Clock, c.result.Legal, c.result.Ties = near.result.Clock, near.result.Legal, 1
	dflt, err := s.harness.planner.defaultConfig(p)
	if err != nil {
		return nil, err
	}
	if c.space, _, err = search.NewSpace(); err != nil {
		return nil, err
	}
	c.dflt, c.result.Decision.Default, c.result.Decision.Band = c.space.Add(dflt), dflt, near.result.Decision.Band
	c.runner = s.harness.runner(&c.subject, c.space, c.dflt)
	c.runner.Progress = func(record.Stage) { s.report(c, record.StageRefine) }
	c.state = search.NewState(c.space, c.runner, search.Budget{}, c.dflt, nil, rand.New(rand.NewPCG(c.runner.Seed("refine"), 0)))
	s.run.Workloads = append(s.run.Workloads, c.record())
	return c, nil
}
