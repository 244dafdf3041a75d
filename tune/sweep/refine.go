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

// side says which of two neighbouring picks serves a token count between theirs.
type side int

const (
	lower   side = iota // the pick of fewer tokens
	upper               // the pick of more tokens
	neither             // the default: neither is faster than it by more than the band
)

// bound puts the end between two stretches whose configs differ: at the geometric
// midpoint of the token counts on either side, after one more token count between them
// was measured where time allows. Where neither config is faster than the default there,
// the default gets a stretch of its own, between.
func (s *sweeper) bound(ctx context.Context, low, high *stretch) (between *stretch, err error) {
	mid := table.Midpoint(low.hi, high.lo)
	if low.hi < mid && mid < high.lo {
		left, right := low.last(), high.picks[0]
		at, there, err := s.sideAt(ctx, mid, left, right)
		switch {
		case err != nil:
			return nil, err
		case len(there) == 0: // nothing was measured
		case at == lower:
			low.picks, low.hi = append(low.picks, s.pick(there, left.at(there))), mid
		case at == upper:
			high.picks, high.lo = slices.Insert(high.picks, 0, s.pick(there, right.at(there))), mid
		default:
			between = &stretch{[]pick{s.pick(there, there.standard())}, mid, mid}
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
func (s *sweeper) abut(low, high *stretch) {
	mid := max(low.hi, min(table.Midpoint(low.hi, high.lo), high.lo-1))
	a, b := low.last(), high.picks[0]
	low.hi += sort.Search(mid-low.hi, func(i int) bool { return !s.serves(a, low.hi+i+1) })
	high.lo -= sort.Search(high.lo-mid-1, func(i int) bool { return !s.serves(b, high.lo-i-1) })
}

// serves reports whether a pick's config can run with so many tokens.
func (s *sweeper) serves(p pick, tokens int) bool {
	if p.dflt {
		return true
	}
	q := atTokens(p.searches[0].problem, tokens)
	k, err := kernels.Find(s.lab.planner.kernels, q.Op, p.config.Kernel)
	return err == nil && k.Check(s.lab.planner.machine, q, p.config) == nil
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

// standard is the default at the token count of a group.
func (g group) standard() ep.Config { return g[0].result.Decision.Default }

// at is the config that a pick means at another token count: a default follows it.
func (p pick) at(there group) ep.Config {
	if p.dflt {
		return there.standard()
	}
	return p.config
}

// sideAt measures two picks and the default at a token count between theirs, under every
// routing of the first, and says which loses least there. A tie goes to the default, then
// to the lower pick. there is empty where nothing could be measured.
func (s *sweeper) sideAt(ctx context.Context, tokens int, low, high pick) (_ side, there group, err error) {
	if ctx.Err() != nil || s.opts.Time > 0 && s.spent > s.opts.Time {
		return lower, nil, nil
	}
	for _, near := range low.searches.and(high.searches) {
		c, err := s.refined(ctx, near, tokens, low, high)
		if err != nil || c.uncrossed {
			return lower, nil, err
		}
		there = append(there, c)
	}
	best, _ := s.minimax(there, there.worthy([]ep.Config{low.at(there), high.at(there), there.standard()}), []string{there.standard().Key(), low.config.Key()})
	switch best.Key() {
	case low.at(there).Key():
		return lower, there, nil
	case high.at(there).Key():
		return upper, there, nil
	}
	return neither, there, nil
}

// and adds to the searches of a group those of another whose routings it lacks.
func (g group) and(other group) group {
	out := slices.Clone(g)
	for _, o := range other {
		if !slices.ContainsFunc(g, func(c *searcher) bool { return c.routing.Spec() == o.routing.Spec() }) {
			out = append(out, o)
		}
	}
	return out
}

// refined measures the default, and the configs of two picks that do not keep it, at a
// token count between those asked for. Each is opened once; further configs are crossed
// into it.
func (s *sweeper) refined(ctx context.Context, near *searcher, tokens int, picks ...pick) (*searcher, error) {
	p := atTokens(near.problem, tokens)
	key := p.Key() + " " + near.routing.Spec()
	c := s.between[key]
	if c == nil {
		var err error
		if c, err = s.openBetween(p, near); err != nil {
			return nil, err
		}
		s.between[key] = c
	}
	configs := []ep.Config{c.space.Config(c.dflt)}
	for _, p := range picks {
		if !p.dflt {
			configs = append(configs, p.config)
		}
	}
	return c, s.cross(ctx, c, configs)
}

// openBetween makes a search that measures what it is given and decides
// nothing.
func (s *sweeper) openBetween(p ep.Problem, near *searcher) (*searcher, error) {
	c := &searcher{subject: subject{problem: p, routing: near.routing, class: near.class}}
	c.aa, c.seen, c.between = near.aa, map[string]sighting{}, true
	if err := c.draw(s.opts.Seed); err != nil {
		return nil, err
	}
	c.result = c.newResult()
	c.result.Clock, c.result.Legal, c.result.Ties = near.result.Clock, near.result.Legal, 1
	dflt, err := s.lab.planner.defaultConfig(p)
	if err != nil {
		return nil, err
	}
	if c.space, _, err = search.NewSpace(); err != nil {
		return nil, err
	}
	c.dflt, c.result.Decision.Default, c.result.Decision.Band = c.space.Add(dflt), dflt, near.result.Decision.Band
	c.runner = s.lab.runner(&c.subject, c.space, c.dflt)
	c.runner.Progress = func(record.Stage) { s.report(c, record.StageRefine) }
	c.state = search.NewState(c.space, c.runner, search.Budget{}, c.dflt, nil, rand.New(rand.NewPCG(c.runner.Seed("refine"), 0)))
	s.run.Workloads = append(s.run.Workloads, c.record())
	return c, nil
}
