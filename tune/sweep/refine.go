package sweep

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/sweep/measure"
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
			low.picks = append(low.picks, left.at(mid, there))
			a = mid
		} else if len(there) > 0 {
			high.picks = slices.Insert(high.picks, 0, right.at(mid, there))
			b = mid
		}
	}
	low.hi = max(a, min(table.Midpoint(a, b), b-1))
	high.lo = low.hi + 1
	return nil
}

// at is a pick at a token count between two searches, on what was measured there.
func (p pick) at(tokens int, cells []*cell) pick {
	p.tokens, p.cells = tokens, cells
	p.evidence.Tokens, p.evidence.Routings = []int{tokens}, nil
	for i, c := range cells {
		e := c.evidence(p.config)
		p.evidence.Routings = append(p.evidence.Routings, c.dist.Spec())
		p.evidence.MaxErr, p.evidence.Date = max(p.evidence.MaxErr, e.MaxErr), e.Date
		if len(cells) > 1 {
			p.evidence.Regret = max(p.evidence.Regret, c.loss(p.config))
		}
		if i == 0 || e.Gain < p.evidence.Gain {
			p.evidence.Median, p.evidence.P10, p.evidence.P90, p.evidence.Rounds = e.Median, e.P10, e.P90, e.Rounds
			p.evidence.Gain, p.evidence.GainLow, p.evidence.GainHigh = e.Gain, e.GainLow, e.GainHigh
		}
	}
	return p
}

// sideAt measures two picks at a token count between theirs, under every
// routing of the first, and says which of them loses less there; a tie goes to
// the one that keeps the default, else to the lower.
func (s *sweeper) sideAt(ctx context.Context, tokens int, low, high pick) (side int, there []*cell, err error) {
	if ctx.Err() != nil || s.opts.Time > 0 && s.before > s.opts.Time {
		return 0, nil, nil
	}
	var worst [2]float64
	for _, near := range low.cells {
		c, err := s.refined(ctx, near, tokens, low.config, high.config)
		if err != nil {
			return 0, nil, err
		}
		there = append(there, c)
		worst[0], worst[1] = max(worst[0], c.loss(low.config)), max(worst[1], c.loss(high.config))
	}
	if math.IsInf(worst[0], 1) && math.IsInf(worst[1], 1) {
		return 0, nil, nil
	}
	difference := math.Log1p(worst[0]) - math.Log1p(worst[1])
	if math.Abs(difference) <= math.Log1p(s.policy.Band) && !math.IsInf(difference, 0) {
		if high.dflt {
			return 1, there, nil
		}
		return 0, there, nil
	}
	if difference > 0 {
		return 1, there, nil
	}
	return 0, there, nil
}

// refined measures two configs and the default at a token count nobody asked
// for. A cell is refined once; further configs are crossed into it.
func (s *sweeper) refined(ctx context.Context, near *cell, tokens int, configs ...ep.Config) (*cell, error) {
	p := near.problem
	if p.MaxTokens == max(p.Tokens, 1) {
		p.MaxTokens = max(tokens, 1)
	}
	p.Tokens = tokens
	key := p.Key() + " " + near.dist.Spec()
	c := s.between[key]
	if c == nil {
		c = &cell{problem: p, dist: near.dist, class: near.class, aa: near.aa, incumb: -1, neighbour: -1}
		if err := s.startRefined(c); err != nil {
			return nil, err
		}
		s.between[key] = c
	}
	return c, s.cross(ctx, c, append([]ep.Config{c.space.Config(c.dflt)}, configs...))
}

func (s *sweeper) startRefined(c *cell) (err error) {
	if err := c.draw(s.opts.Seed); err != nil {
		return err
	}
	if c.space, _, err = search.NewSpace(); err != nil {
		return err
	}
	dflt, err := s.planner.defaultConfig(c.problem)
	if err != nil {
		return err
	}
	c.dflt = c.space.Add(dflt)
	c.runner = &measure.Runner{
		Backend: s.backend, Workload: c.workload, Space: c.space, Default: c.dflt,
		Policy: s.policy, Log: s.dir, Known: s.known, Profile: &s.profile, Foretold: true,
		Progress: func(string, int) { s.report(c, refineStage, nil) },
	}
	c.hunt = search.NewHunt(c.space, c.runner, search.Budget{}, c.dflt, nil, rand.New(rand.NewPCG(c.runner.Seed("refine"), 0)))
	c.effects = map[string]effect{}
	s.run.Workloads = append(s.run.Workloads, c.record())
	c.outcome.Verdict = record.KeepsBest
	return nil
}
