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
	costs []probedCost // one for each search
}

// probedCost holds the seconds that measuring one problem takes.
type probedCost struct {
	open   float64 // opening a session
	cold   float64 // compiling a config and comparing it with the oracle
	warm   float64 // comparing the config with the oracle in a later session
	sample float64 // one sample of a config
}

// session returns the seconds that a session with this many configs takes. Each config is compared
// with the oracle once. `rounds` is the mean number of rounds of a config.
func (c probedCost) session(configs int, rounds float64) float64 {
	return c.open + float64(configs)*(c.warm+rounds*c.sample)
}

// Probe measures the costs of the searches of a plan and sets Probed. In each of two sessions it
// prepares the default, compares it with the oracle and runs a few rounds. Among problems that
// differ only in tokens it measures the smallest and the largest, and interpolates the costs of the
// other problems. Nothing is written to the log. If a default crashes or hangs, the probe ends with
// an error, because a sweep would start the worker again for every problem.
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

// tokenEnds returns two of the searches that differ from s only in tokens: the search with the
// fewest tokens and the search with the most tokens.
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
	return probedCost{
		at(costs[0].open, costs[1].open), at(costs[0].cold, costs[1].cold), at(costs[0].warm, costs[1].warm), at(costs[0].sample, costs[1].sample),
	}
}

// probeConfigs is the number of times that the default runs in a round of a probe. A round of a
// search also runs several configs, which share the time of one request to the worker.
const probeConfigs = 2

// A probe times the default in leastProbeRounds rounds. If these rounds take at most probeSeconds,
// it uses the times of mostProbeRounds further rounds instead, because the first rounds take
// longer. In each further round the default runs sessionSamples times.
const (
	leastProbeRounds = 2
	mostProbeRounds  = 5
	probeSeconds     = 0.05
)

// probe measures the cost of one problem of a plan. If the default cannot run, or its answer is wrong,
// the cost is the time until the failure.
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

// probeSessions measures the costs in two sessions. Only the first session compiles the default.
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

// probeBlock measures the default `configs` times in each round. `open` is the time of opening a
// session, in seconds, or 0 if a session is open already. `rest` is the seconds that everything else
// in the block took.
func (l *harness) probeBlock(ctx context.Context, c *comparison, configs, rounds int) (open, rest float64, err error) {
	before, start := l.wall.Opening, time.Now()
	_, err = c.runner.Measure(ctx, record.StageAA, slices.Repeat(c.points[:1], configs), rounds)
	open = l.wall.Opening - before
	return open, time.Since(start).Seconds() - open, err
}

// sessionRounds returns the mean number of rounds in which a config runs in a further session. Some
// configs run in only half of the rounds.
func (p *Plan) sessionRounds() float64 {
	return float64(p.Policy.ConfirmRounds) * sessionSamples / sessionConfigs
}

// A further session prepares the winner, the default, its twin, the runner-up and some other finalists.
const (
	sessionConfigs = 4 + search.Neighbours // number of configs that the session prepares
	sessionSamples = 6                     // mean number of configs in a round, from recorded searches
)

// further returns the seconds of all further sessions of a search with this cost.
func (p *Plan) further(c probedCost) float64 {
	return float64(p.Policy.Sessions) * c.session(sessionConfigs, p.sessionRounds())
}

// shortest returns the least number of seconds that a search takes, without further sessions. This
// includes the A/A test, the screening of one candidate, the shortest finals, and the confirmation.
func (p *Plan) shortest(c probedCost) float64 {
	samples := 2*p.Policy.AARounds + leastConfigs*(search.ScreenRounds+p.Policy.MinRounds+p.Policy.ConfirmRounds)
	return c.open + leastConfigs*c.cold + c.warm + float64(samples)*c.sample
}

// leastConfigs is the least number of configs in the finals: the default and one other config.
const leastConfigs = 2

// Least returns the shortest time that a plan takes. A sweep cannot keep a smaller budget.
func (p *Plan) Least() time.Duration {
	seconds := 0.0
	for i := range p.Searches {
		seconds += p.shortest(p.Probed.costs[i]) + p.further(p.Probed.costs[i])
	}
	return time.Duration(seconds * float64(time.Second))
}

// whole returns the seconds that search i takes, without further sessions, if it measures as many
// configs as its budget allows.
func (p *Plan) whole(i int) float64 {
	c, s := p.Probed.costs[i], p.Searches[i]
	return p.shortest(c) + float64(s.Measured)*c.cold + float64(s.Samples)*c.sample
}

// Estimate returns the time that a plan takes if every search measures as many configs as its budget
// allows.
func (p *Plan) Estimate() time.Duration {
	seconds := 0.0
	for i := range p.Searches {
		seconds += p.whole(i)/(1-laterShare) + p.further(p.Probed.costs[i])
	}
	return time.Duration(seconds * float64(time.Second))
}
