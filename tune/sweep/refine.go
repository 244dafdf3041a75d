package sweep

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/table"
)

// refineAll looks for neighbouring ranges of token counts with different configs. It measures both configs at a token
// count between the ranges, under every routing that was searched for either range.
func (s *sweeper) refineAll(ctx context.Context) error {
	m := s.rowMaker()
	for _, byTokens := range m.groups {
		for _, class := range ep.Classes() {
			ranges := m.ranges(byTokens, class)
			for i := 1; i < len(ranges); i++ {
				if !ranges[i].joined {
					continue
				}
				if err := s.refine(ctx, ranges[i-1], ranges[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *sweeper) refine(ctx context.Context, low, high *tokenRange) error {
	mid := table.Midpoint(low.hi, high.lo)
	if mid <= low.hi || mid >= high.lo || ctx.Err() != nil {
		return nil
	}
	left, right := low.last(), high.picks[0]
	all := left.searches.withRoutingsOf(right.searches)
	if !s.refinementFits(all) {
		return nil
	}
	for _, near := range all {
		c, err := s.measureBetween(ctx, near, mid, left, right)
		if err != nil || c.crossingMissing {
			return err
		}
	}
	return nil
}

// measureBetween measures the default and the configs of `choices` at a token count, under the routing of `near`.
// This measurement is a refinement. Later calls may add configs to it.
func (s *sweeper) measureBetween(ctx context.Context, near *activeSearch, tokens int, choices ...rowChoice) (*activeSearch, error) {
	p := atTokens(near.problem, tokens)
	key := refinementKey(p, near)
	c := s.refinements[key]
	if c == nil {
		var err error
		if c, err = s.newRefinement(p, near); err != nil {
			return nil, err
		}
		s.refinements[key] = c
	}
	configs := []ep.Config{c.space.Config(c.dflt)}
	for _, p := range choices {
		if !p.dflt {
			configs = append(configs, p.config)
		}
	}
	if err := s.cross(ctx, c, configs); err != nil || c.crossingMissing {
		return c, err
	}
	return c, s.refineOverSessions(ctx, c, configs)
}

func (s *sweeper) refineOverSessions(ctx context.Context, c *activeSearch, configs []ep.Config) error {
	missing := func(cfg ep.Config) bool {
		_, measured := c.measured[cfg.Key()]
		_, ok := c.overSessions[cfg.Key()]
		return measured && !ok
	}
	n := s.harness.policy.Sessions
	if n == 0 || !slices.ContainsFunc(configs, missing) {
		return nil
	}
	for key := range c.measured {
		if cfg, err := ep.ParseConfig(key); err == nil {
			configs = appendConfig(configs, cfg)
		}
	}
	slices.SortFunc(configs, func(a, b ep.Config) int { return cmp.Compare(a.Key(), b.Key()) })
	c.furtherSessions = nil
	for range n {
		if err := s.measureSession(ctx, c, configs); err != nil {
			return err
		}
	}
	if c.crossingMissing = len(c.furtherSessions) < n; !c.crossingMissing {
		c.overSessions = c.versusDefault(search.MergeSessions(c.furtherSessions), n)
	}
	return nil
}

func refinementKey(p ep.Problem, near *activeSearch) string {
	return p.Key() + " " + near.routing.Spec()
}

// newRefinement returns a refinement: a search that measures only given configs and makes no decision.
func (s *sweeper) newRefinement(p ep.Problem, near *activeSearch) (*activeSearch, error) {
	c := &activeSearch{routedProblem: routedProblem{problem: p, routing: near.routing, class: near.class}}
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
	c.runner = s.harness.runner(&c.routedProblem, c.space, c.dflt)
	c.runner.Progress = func(record.Stage) { s.report(c, record.StageRefine) }
	c.state = search.NewState(c.space, c.runner, search.Budget{}, c.dflt, nil, rand.New(rand.NewPCG(c.runner.Seed("refine"), 0)))
	s.run.Workloads = append(s.run.Workloads, c.record())
	return c, nil
}

// meet sets the border between two neighbouring ranges. If both configs were measured at a token count between the
// ranges, this count goes to the range with the faster config. If the default is faster than both, meet returns a new
// range with the default.
func (m *rowMaker) meet(low, high *tokenRange) (between *tokenRange) {
	left, right := low.last(), high.picks[0]
	if there := m.refined(low, high); there != nil {
		mid := there[0].problem.Tokens
		dflt := there.defaultConfig()
		configs := []ep.Config{left.configAt(there), right.configAt(there), dflt}
		best, _ := m.leastWorstLoss(there, there.fasterSomewhere(configs), []string{dflt.Key(), left.config.Key()})
		switch best.Key() {
		case configs[0].Key():
			low.picks, low.hi = append(low.picks, m.makeChoice(there, best)), mid
		case configs[1].Key():
			high.picks, high.lo = slices.Insert(high.picks, 0, m.makeChoice(there, best)), mid
		default:
			between = &tokenRange{picks: []rowChoice{m.makeChoice(there, dflt)}, lo: mid, hi: mid}
			m.abut(low, between)
			m.abut(between, high)
			return between
		}
	}
	m.abut(low, high)
	return nil
}

// refined returns the refinements between two ranges, one for each routing. It returns nil if a measurement is
// missing.
func (m *rowMaker) refined(low, high *tokenRange) group {
	mid := table.Midpoint(low.hi, high.lo)
	if mid <= low.hi || mid >= high.lo {
		return nil
	}
	left, right := low.last(), high.picks[0]
	var out group
	for _, near := range left.searches.withRoutingsOf(right.searches) {
		c := m.refinements[refinementKey(atTokens(near.problem, mid), near)]
		lacks := func(p rowChoice) bool { _, ok := c.known()[p.configAt(group{c}).Key()]; return !ok }
		if c == nil || c.crossingMissing && (lacks(left) || lacks(right)) {
			return nil
		}
		out = append(out, c)
	}
	return out
}

// abut extends two ranges until they touch at the geometric mean of their nearest token counts, or as far as their
// configs can run.
func (m *rowMaker) abut(low, high *tokenRange) {
	mid := max(low.hi, min(table.Midpoint(low.hi, high.lo), high.lo-1))
	a, b := low.last(), high.picks[0]
	low.hi += sort.Search(mid-low.hi, func(i int) bool { return !m.runs(a, low.hi+i+1) })
	high.lo -= sort.Search(high.lo-mid-1, func(i int) bool { return !m.runs(b, high.lo-i-1) })
}

func (m *rowMaker) runs(p rowChoice, tokens int) bool {
	return p.dflt || m.serves(atTokens(p.searches[0].problem, tokens), p.config)
}

// atTokens returns p with another number of tokens. If p's buffers have room for exactly p's tokens, the
// new buffers have room for exactly the new number.
func atTokens(p ep.Problem, tokens int) ep.Problem {
	room := p.MaxTokens
	if room == max(p.Tokens, 1) {
		room = max(tokens, 1)
	}
	return p.AtTokens(tokens, room)
}

func (g group) defaultConfig() ep.Config { return g[0].result.Decision.Default }

// configAt returns the config of a choice. If the choice is the default, this is the default at the token count of
// `there`.
func (p rowChoice) configAt(there group) ep.Config {
	if p.dflt {
		return there.defaultConfig()
	}
	return p.config
}

func (g group) withRoutingsOf(other group) group {
	out := slices.Clone(g)
	for _, o := range other {
		if !slices.ContainsFunc(g, func(c *activeSearch) bool { return c.routing.Spec() == o.routing.Spec() }) {
			out = append(out, o)
		}
	}
	return out
}
