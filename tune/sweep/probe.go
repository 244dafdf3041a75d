package sweep

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
)

// A Probe holds the measured costs of each search of a plan.
type Probe struct {
	costs []probedCost
}

// probedCost holds the measured seconds of each step for one problem.
type probedCost struct {
	open   float64 // opening a session
	cold   float64 // compiling a config and checking its outputs
	warm   float64 // checking a config's outputs again
	sample float64 // one sample of a config
}

func (c probedCost) session(configs int, rounds float64) float64 {
	return c.open + float64(configs)*(c.warm+rounds*c.sample)
}

// Probe measures the costs of a plan's searches and sets Probed. Among problems that differ only in tokens, it
// measures the smallest and the largest, and interpolates. A default that crashes or hangs is an error.
func (p *Plan) Probe(ctx context.Context, b kernels.Backend) error {
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
				if cost, err = l.probe(ctx, end.routedProblem, p); err != nil {
					return err
				}
				known[end.problem] = cost
			}
			costs[i] = cost
		}
		out.costs = append(out.costs, between(costs, ends, s.problem.Tokens))
	}
	p.Probed = out
	return nil
}

// tokenEnds returns the searches with the fewest and the most tokens, among those that differ from s only in tokens.
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

func between(costs [2]probedCost, ends [2]PlannedSearch, tokens int) probedCost {
	lo, hi := ends[0].problem.Tokens, ends[1].problem.Tokens
	if lo == hi {
		return costs[0]
	}
	at := func(a, b float64) float64 { return a + (b-a)*float64(tokens-lo)/float64(hi-lo) }
	return probedCost{
		at(costs[0].open, costs[1].open), at(costs[0].cold, costs[1].cold), at(costs[0].warm, costs[1].warm), at(costs[0].sample, costs[1].sample),
	}
}

// probeConfigs says how often each round of the probe measures the default.
const probeConfigs = 2

// A probe runs leastProbeRounds rounds. If they take at most probeSeconds, it runs mostProbeRounds more rounds, and
// uses only the time of these further rounds.
const (
	leastProbeRounds = 2
	mostProbeRounds  = 5
	probeSeconds     = 0.05
)

func (l *harness) probe(ctx context.Context, s routedProblem, p *Plan) (cost probedCost, err error) {
	report := func(record.Stage) { p.reportProbe(&s) }
	report("")
	if err := s.draw(p.Options.Seed); err != nil {
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
	c.runner.Progress = report
	if err = c.close(l.probeSessions(ctx, c, &cost)); err != nil {
		err = fmt.Errorf("probe of %s: %w", s.title(), err)
	}
	return cost, err
}

func (p *Plan) reportProbe(s *routedProblem) {
	if p.Options.Progress != nil {
		p.Options.Progress(Event{Done: 0, All: len(p.Searches), Title: "probe of " + s.title()})
	}
}

// probeSessions measures two sessions, of which only the first compiles.
func (l *harness) probeSessions(ctx context.Context, c *comparison, cost *probedCost) (err error) {
	cost.open, cost.cold, err = l.probeBlock(ctx, c, 1, 1)
	if err != nil {
		return err
	}
	if f := c.runner.Failures()[c.points[0]]; f != nil && (f.Status == ep.Crash || f.Status == ep.Hang) {
		return fmt.Errorf("%s; mend the worker, or leave this case out of the sweep", defaultFailure(c.runner.Failures(), c.points[0]))
	}
	if err = c.runner.Close(); err != nil {
		return err
	}
	if _, cost.warm, err = l.probeBlock(ctx, c, probeConfigs, 1); err != nil {
		return err
	}
	took := 0.0
	for _, n := range [][2]int{{probeConfigs, leastProbeRounds}, {sessionSamples, mostProbeRounds}} {
		if took > probeSeconds {
			break
		}
		if _, took, err = l.probeBlock(ctx, c, n[0], n[1]); err != nil {
			return err
		}
		cost.sample = took / float64(n[0]*n[1])
	}
	cost.cold, cost.warm = max(0, cost.cold-cost.sample), max(0, cost.warm/probeConfigs-cost.sample)
	return nil
}

// probeBlock measures the default `configs` times in each round.
func (l *harness) probeBlock(ctx context.Context, c *comparison, configs, rounds int) (open, rest float64, err error) {
	before, start := l.wall.Opening, time.Now()
	_, err = c.runner.Measure(ctx, record.StageAA, slices.Repeat(c.points[:1], configs), rounds)
	open = l.wall.Opening - before
	return open, time.Since(start).Seconds() - open, err
}

func (p *Plan) sessionRounds() float64 {
	return float64(p.Policy.ConfirmRounds) * sessionSamples / sessionConfigs
}

const (
	sessionConfigs = 4 + search.Neighbours
	sessionSamples = 6 // mean number of configs that one round measures
)

func (p *Plan) further(c probedCost) float64 {
	return float64(p.Policy.Sessions) * c.session(sessionConfigs, p.sessionRounds())
}

// shortest returns the seconds of a search that measures leastConfigs configs in one session. No search is shorter.
func (p *Plan) shortest(c probedCost) float64 {
	samples := 2*p.Policy.AARounds + leastConfigs*(search.ScreenRounds+p.Policy.MinRounds+p.Policy.ConfirmRounds)
	return c.open + leastConfigs*c.cold + c.warm + float64(samples)*c.sample
}

const leastConfigs = 2

// Least returns the least time that a plan can take.
func (p *Plan) Least() time.Duration {
	seconds := 0.0
	for i := range p.Searches {
		seconds += p.shortest(p.Probed.costs[i]) + p.further(p.Probed.costs[i])
	}
	return time.Duration(seconds * float64(time.Second))
}

func (p *Plan) whole(i int) float64 {
	c, s := p.Probed.costs[i], p.Searches[i]
	return p.shortest(c) + float64(s.Measured)*c.cold + float64(s.Samples)*c.sample
}

// Estimate returns the time of a plan if every search uses its budget of configs.
func (p *Plan) Estimate() time.Duration {
	seconds := 0.0
	for i := range p.Searches {
		seconds += p.whole(i)/(1-laterShare) + p.further(p.Probed.costs[i])
	}
	return time.Duration(seconds * float64(time.Second))
}
