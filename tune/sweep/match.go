package sweep

import (
	"context"
	"errors"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/workloads"
)

// Matcher measures single configs against the default by the protocol of a
// search's end: answers compared with the oracle, an A/A test, interleaved
// rounds. Nothing is logged.
type Matcher struct {
	lab  *lab
	seed uint64
}

// NewMatcher makes a Matcher. maxSMs bounds the default, 0 for no bound.
func NewMatcher(b kernels.Backend, policy measure.Policy, maxSMs int, seed uint64) *Matcher {
	l := newLab(b, newPlanner(b, &Options{MaxSMs: maxSMs, Seed: seed}), nil)
	l.policy = policy
	return &Matcher{l, seed}
}

// Match measures one config of a problem under a routing spec. What is wrong
// with the config is a decision with the cause failed; an error means that the
// machine is lost.
func (m *Matcher) Match(ctx context.Context, p ep.Problem, routing string, cfg ep.Config) (result record.Search, err error) {
	c, err := m.contest(p, routing, cfg)
	if err != nil {
		return record.Search{Problem: p, Routing: routing, Decision: stat.Fail(stat.Match{Config: cfg}, record.Failed, err.Error())}, nil
	}
	defer func() { err = c.close(err) }()
	aa, err := c.runner.AA(ctx, 0)
	band := record.Band{Policy: m.lab.policy.Band, AA: aa.Spread}
	if errors.Is(err, search.ErrDefault) {
		result = c.newResult()
		_, reason := c.failure(err)
		result.Decision = stat.Fail(c.match(band), record.NoDefault, reason)
		return result, nil
	}
	if err != nil {
		return result, err
	}
	return m.lab.match(ctx, c, record.StageVerify, max(m.lab.policy.MaxRounds, aa.Rounds), band)
}

// contest draws the routing and puts the config beside the default.
func (m *Matcher) contest(p ep.Problem, routing string, cfg ep.Config) (*contest, error) {
	d, err := workloads.Parse(routing)
	if err != nil {
		return nil, fmt.Errorf("routing %s: %w", routing, err)
	}
	s, err := newSubject(p, d, m.seed)
	if err != nil {
		return nil, fmt.Errorf("routing %s: %w", routing, err)
	}
	dflt, err := m.lab.planner.defaultConfig(p)
	if err != nil {
		return nil, err
	}
	return m.lab.contest(&s, "verify", dflt, cfg)
}
