package sweep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/workloads"
)

// BenchStage is the stage of bench's rounds.
const BenchStage = "bench"

// Job is a measurement without a search: how many rounds of each config, and
// where trials and outcomes go.
type Job struct {
	Rounds int
	Log    measure.Log
	Run    *record.Run
}

// Bench measures one config a problem beside the default, without searching:
// pick says which, a zero config meaning the default alone, and where it comes
// from. Outcomes are filed in the job's run as they are made.
func Bench(ctx context.Context, b kernels.Backend, opts *Options, job Job, pick Picker) error {
	run := job.Run
	s := &sweeper{opts: opts, backend: b, policy: measure.PolicyFor(b.Machine()), run: run}
	s.planner = planner{machine: b.Machine(), kernels: b.Kernels(), opts: opts}
	for _, p := range opts.Problems {
		for _, d := range opts.Distributions {
			c := &cell{problem: p, dist: d, incumb: -1, neighbour: -1, class: workloads.ClassOf(d, p, opts.Seed)}
			if err := c.draw(opts.Seed); err != nil {
				return err
			}
			cfg, reason, err := pick(p, c.class)
			if err != nil {
				return err
			}
			if err := s.bench(ctx, c, cfg, job); err != nil {
				return err
			}
			if c.outcome.Reason == "" {
				c.outcome.Reason = reason
			}
			run.Workloads = append(run.Workloads, c.record())
			run.Outcomes = append(run.Outcomes, c.outcome)
		}
	}
	run.Finished = time.Now().UTC()
	return nil
}

// Picker chooses a config for a problem under a routing class.
type Picker func(ep.Problem, ep.Class) (c ep.Config, reason string, err error)

// bench measures one config against the default.
func (s *sweeper) bench(ctx context.Context, c *cell, cfg ep.Config, job Job) (err error) {
	if c.space, _, err = search.NewSpace(); err != nil {
		return err
	}
	dflt, err := s.planner.defaultConfig(c.problem)
	if err != nil {
		return err
	}
	if cfg.IsDefault() {
		cfg = dflt
	}
	k, err := kernels.Find(s.planner.kernels, c.problem.Op, cfg.Kernel)
	if err == nil {
		err = k.Check(s.planner.machine, c.problem, cfg)
	}
	if err != nil {
		return fmt.Errorf("%s cannot run %s here: %w", cfg.Key(), c.problem.Op, err)
	}
	c.dflt = c.space.Add(dflt)
	point := c.space.Add(cfg)
	c.runner = &measure.Runner{Backend: s.backend, Workload: c.workload, Space: c.space, Default: c.dflt,
		Policy: s.policy, Log: job.Log, Profile: &s.profile}
	c.hunt = search.NewHunt(c.space, c.runner, search.Budget{}, c.dflt, nil, rand.New(rand.NewPCG(c.runner.Seed("bench"), 0)))
	defer func() { err = errors.Join(err, c.runner.Close()) }()
	win, base, err := c.hunt.Duel(ctx, BenchStage, point, job.Rounds)
	if err != nil && !errors.Is(err, search.ErrDefault) {
		return err
	}
	if f := c.runner.Failures()[point]; f != nil || err != nil {
		c.fail(c.runner.Failures())
		if f != nil {
			c.outcome.Reason = f.Error()
		}
		c.outcome.Config = cfg
		return nil
	}
	s.file(c, win, base)
	c.outcome.Verdict = verdictOf(win.Point == c.dflt, c.outcome, s.policy.Band)
	_, err = c.runner.Recheck(ctx, recheckStage, []int{c.dflt, point})
	return err
}

// verdictOf says how a benched config stands to the default.
func verdictOf(same bool, o record.Outcome, band float64) string {
	switch {
	case same:
		return record.KeepsBest
	case o.GainLo > 1+band:
		return record.Faster
	case o.GainHi < 1/(1+band):
		return record.Slower
	}
	return record.Tie
}

// file writes times and gain into the outcome of a cell.
func (s *sweeper) file(c *cell, win, dflt search.Finalist) {
	gain := win.Gain(dflt, c.runner.Seed("gain"))
	o := &c.outcome
	o.Config, o.Default = c.space.Config(win.Point), c.space.Config(c.dflt)
	o.Median, o.P10, o.P90, o.Rounds = win.Median, win.P10, win.P90, win.Rounds
	o.DefaultTime, o.Gain, o.GainLo, o.GainHi = dflt.Median, gain.Mid, gain.Lo, gain.Hi
	o.Evaluations, o.Quarantined = c.hunt.Evaluations(), len(c.runner.Failures())
	o.Clock, o.MaxErr = c.runner.Clock(), c.runner.MaxErr(win.Point)
	c.chosen = win
}
