package sweep

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
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
			abut(low, between)
			abut(between, high)
			return between, nil
		}
	}
	abut(low, high)
	return nil, nil
}

// abut lets two stretches meet at the geometric midpoint between them.
func abut(low, high *stretch) {
	low.hi = max(low.hi, min(table.Midpoint(low.hi, high.lo), high.lo-1))
	high.lo = low.hi + 1
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
	for _, near := range low.searches {
		c, err := s.refined(ctx, near, tokens, low, high)
		if err != nil || c.uncrossed {
			return lower, nil, err
		}
		there = append(there, c)
	}
	order := []side{neither, lower, upper}
	switch { // a pick that keeps the default stands for it
	case low.dflt:
		order = order[1:]
	case high.dflt:
		order = []side{upper, lower}
	}
	keys := map[side]string{lower: low.at(there).Key(), upper: high.at(there).Key(), neither: there.standard().Key()}
	var ordered []string
	for _, o := range order {
		ordered = append(ordered, keys[o])
	}
	at, _ := stat.Minimax(there.effects(), ordered, s.lab.policy.Band)
	if at < 0 {
		return lower, nil, nil
	}
	return order[at], there, nil
}

// refined measures the default, and the configs of two picks that do not keep it, at a
// token count between those asked for. Each is opened once; further configs are crossed
// into it.
func (s *sweeper) refined(ctx context.Context, near *searcher, tokens int, picks ...pick) (*searcher, error) {
	p, room := near.problem, near.problem.MaxTokens
	if room == max(p.Tokens, 1) {
		room = max(tokens, 1)
	}
	p = p.AtTokens(tokens, room)
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
	c.aa, c.seen = near.aa, map[string]sighting{}
	if err := c.draw(s.opts.Seed); err != nil {
		return nil, err
	}
	c.result = c.newResult()
	c.result.Clock, c.result.Tried, c.result.Legal, c.result.Ties = near.result.Clock, near.result.Tried, near.result.Legal, near.result.Ties
	dflt, err := s.lab.planner.defaultConfig(p)
	if err != nil {
		return nil, err
	}
	if c.space, _, err = search.NewSpace(); err != nil {
		return nil, err
	}
	c.dflt, c.result.Decision.Default = c.space.Add(dflt), dflt
	c.runner = s.lab.runner(&c.subject, c.space, c.dflt)
	c.runner.Progress = func(record.Stage) { s.report(c, record.StageRefine) }
	c.state = search.NewState(c.space, c.runner, search.Budget{}, c.dflt, nil, rand.New(rand.NewPCG(c.runner.Seed("refine"), 0)))
	s.run.Workloads = append(s.run.Workloads, c.record())
	return c, nil
}
