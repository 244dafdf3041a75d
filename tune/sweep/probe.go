package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
)

// A Probe holds the measured costs of each search of a plan.
type Probe struct {
	costs []probedCost // one for each search
}

// probedCost is the cost of measuring one problem, in seconds of wall time: of opening a session, of
// one more config, and of one more sample of a config.
type probedCost struct {
	open, config, sample float64
}

// probeRounds is the number of rounds in which a probe times the default.
const probeRounds = 2

// Probe measures the costs of the searches of a plan. It compiles the default, compares it with the
// oracle and runs two rounds of it. Among problems that differ only in tokens it measures the
// smallest and the largest, and interpolates the costs of the others. Nothing is recorded.
func (p *Plan) Probe(ctx context.Context, b kernels.Backend) (*Probe, error) {
	l := newHarness(b, p.planner, nil)
	l.policy.Sessions = 0
	known := map[ep.Problem]probedCost{}
	out := &Probe{}
	for _, s := range p.Searches {
		ends := p.tokenEnds(s)
		var costs [2]probedCost
		for i, end := range ends {
			cost, ok := known[end.problem]
			if !ok {
				var err error
				if cost, err = l.probe(ctx, end.subject, p.Options.Seed); err != nil {
					return nil, err
				}
				known[end.problem] = cost
			}
			costs[i] = cost
		}
		out.costs = append(out.costs, between(costs, ends, s.problem.Tokens))
	}
	return out, nil
}

// tokenEnds returns the searches with the fewest and the most tokens of a problem.
func (p *Plan) tokenEnds(s PlannedSearch) [2]PlannedSearch {
	ends := [2]PlannedSearch{s, s}
	for _, o := range p.Searches {
		if withoutTokens(o.problem) != withoutTokens(s.problem) {
			continue
		}
		if o.problem.Tokens < ends[0].problem.Tokens {
			ends[0] = o
		}
		if o.problem.Tokens > ends[1].problem.Tokens {
			ends[1] = o
		}
	}
	return ends
}

func withoutTokens(p ep.Problem) ep.Problem {
	p.Tokens, p.MaxTokens = 0, 0
	return p
}

// between returns the cost at a token count, by linear interpolation between both ends.
func between(costs [2]probedCost, ends [2]PlannedSearch, tokens int) probedCost {
	lo, hi := ends[0].problem.Tokens, ends[1].problem.Tokens
	if lo == hi {
		return costs[0]
	}
	at := func(a, b float64) float64 { return a + (b-a)*float64(tokens-lo)/float64(hi-lo) }
	return probedCost{at(costs[0].open, costs[1].open), at(costs[0].config, costs[1].config), at(costs[0].sample, costs[1].sample)}
}

// probe measures the cost of one problem. If the default fails, the cost is the time until
// it failed.
func (l *harness) probe(ctx context.Context, s subject, seed uint64) (cost probedCost, err error) {
	if err := s.draw(seed); err != nil {
		return cost, err
	}
	dflt, err := l.planner.defaultConfig(s.problem)
	if err != nil {
		return cost, err
	}
	c, err := l.newComparison(&s, "probe", dflt)
	if err != nil {
		return cost, err
	}
	before := l.wall.Opening
	start := time.Now()
	_, err = c.runner.Measure(ctx, record.StageAA, c.points, 1)
	cost.open = l.wall.Opening - before
	cost.config = time.Since(start).Seconds() - cost.open
	for i := 0; i < probeRounds && err == nil; i++ {
		start = time.Now()
		_, err = c.runner.Measure(ctx, record.StageAA, c.points, 1)
		if took := time.Since(start).Seconds(); i == 0 || took < cost.sample { // another program may slow one round down
			cost.sample = took
		}
	}
	cost.config = max(0, cost.config-cost.sample)
	if err = c.close(err); err != nil {
		err = fmt.Errorf("probe of %s: %w", s.title(), err)
	}
	return cost, err
}

// fixed returns the seconds that a search takes without the strategy's own choices, if this many
// configs reach the finals. It counts the A/A test, the required candidates, the shortest finals,
// the confirmation and the further sessions.
func (p *Plan) fixed(c probedCost, configs int) float64 {
	n := float64(configs)
	samples := 2*float64(p.Policy.AARounds) + n*float64(search.ScreenRounds+p.Policy.MinRounds+p.Policy.ConfirmRounds)
	session := c.open + n*c.config + n*float64(p.Policy.ConfirmRounds)*c.sample
	return c.open + n*c.config + samples*c.sample + float64(p.Policy.Sessions)*session
}

// leastConfigs is the least number of configs in the finals: the default and one other.
const leastConfigs = 2

// Least returns the shortest time that a plan takes. A sweep exceeds any smaller budget.
func (p *Plan) Least(probe *Probe) time.Duration {
	seconds := 0.0
	for i := range p.Searches {
		seconds += p.fixed(probe.costs[i], leastConfigs)
	}
	return time.Duration(seconds * float64(time.Second))
}

// Estimate returns the time that a plan takes if every search measures as many configs as its budget
// of configs allows.
func (p *Plan) Estimate(probe *Probe) time.Duration {
	seconds := 0.0
	for i, s := range p.Searches {
		c := probe.costs[i]
		seconds += p.fixed(c, sessionConfigs) + float64(s.Measured)*c.config + float64(s.Samples)*c.sample
	}
	return time.Duration(seconds / searchShare * float64(time.Second))
}
