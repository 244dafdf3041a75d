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

// bound puts the end between two stretches whose configs differ: at the
// geometric midpoint of the token counts on either side, after one more token
// count between them was measured where time allows.
func (s *sweeper) bound(ctx context.Context, low, high *stretch) error {
	a, b := low.hi, high.lo
	if mid := table.Midpoint(a, b); a < mid && mid < b {
		left, right := low.picks[len(low.picks)-1], high.picks[0]
		side, there, err := s.sideAt(ctx, mid, left, right)
		if err != nil {
			return err
		}
		if len(there) > 0 && side == 0 {
			low.picks = append(low.picks, s.pick(there, left.config))
			a = mid
		} else if len(there) > 0 {
			high.picks = slices.Insert(high.picks, 0, s.pick(there, right.config))
			b = mid
		}
	}
	low.hi = max(a, min(table.Midpoint(a, b), b-1))
	high.lo = low.hi + 1
	return nil
}

// sideAt measures two picks at a token count between theirs, under every
// routing of the first, and says which loses less there. A tie goes to the one
// that keeps the default, else to the lower.
func (s *sweeper) sideAt(ctx context.Context, tokens int, low, high pick) (side int, there group, err error) {
	if ctx.Err() != nil || s.opts.Time > 0 && s.spent > s.opts.Time {
		return 0, nil, nil
	}
	for _, near := range low.searches {
		c, err := s.refined(ctx, near, tokens, low.config, high.config)
		if err != nil || c.uncrossed {
			return 0, nil, err
		}
		there = append(there, c)
	}
	keys := []string{low.config.Key(), high.config.Key()}
	if high.dflt {
		slices.Reverse(keys)
	}
	at, _ := stat.Minimax(there.effects(), keys, s.lab.policy.Band)
	switch {
	case at < 0:
		return 0, nil, nil
	case keys[at] == high.config.Key():
		return 1, there, nil
	}
	return 0, there, nil
}

// refined measures two configs and the default at a token count between those
// asked for. Each is opened once; further configs are crossed into it.
func (s *sweeper) refined(ctx context.Context, near *searcher, tokens int, configs ...ep.Config) (*searcher, error) {
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
	return c, s.cross(ctx, c, append([]ep.Config{c.space.Config(c.dflt)}, configs...))
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
