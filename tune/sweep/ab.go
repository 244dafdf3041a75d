package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/workloads"
)

// ABStage is the stage of live comparisons.
const ABStage = "ab"

// Contest is two configs measured side by side: A under its twin label too,
// so that what A varies against itself is known.
type Contest struct{ A, B ep.Config }

// AB times both configs of a contest, and A against itself, on every problem
// and distribution. Each round has all three in an order that is random and
// balanced. In the log A has the role of the default.
func AB(ctx context.Context, b kernels.Backend, opts *Options, job Job, x Contest) error {
	run := job.Run
	s := &sweeper{opts: opts, backend: b, policy: measure.PolicyFor(b.Machine()), run: run}
	s.planner = planner{machine: b.Machine(), kernels: b.Kernels(), opts: opts}
	for _, p := range opts.Problems {
		for _, d := range opts.Distributions {
			c := &cell{problem: p, dist: d, incumb: -1, neighbour: -1, class: workloads.ClassOf(d, p, opts.Seed)}
			if err := c.draw(opts.Seed); err != nil {
				return err
			}
			if err := s.contest(ctx, c, x, job); err != nil {
				return err
			}
			run.Workloads = append(run.Workloads, c.record())
		}
	}
	run.Finished = time.Now().UTC()
	return nil
}

// contest measures one problem and routing.
func (s *sweeper) contest(ctx context.Context, c *cell, x Contest, job Job) (err error) {
	if c.space, _, err = search.NewSpace(); err != nil {
		return err
	}
	for _, cfg := range []ep.Config{x.A, x.B} {
		k, err := kernels.Find(s.planner.kernels, c.problem.Op, cfg.Kernel)
		if err == nil {
			err = k.Check(s.planner.machine, c.problem, cfg)
		}
		if err != nil {
			return fmt.Errorf("%s cannot run %s here: %w", cfg.Key(), c.problem.Op, err)
		}
	}
	c.dflt = c.space.Add(x.A)
	point := c.space.Add(x.B)
	c.runner = &measure.Runner{Backend: s.backend, Workload: c.workload, Space: c.space, Default: c.dflt,
		Policy: s.policy, Log: job.Log, Profile: &s.profile}
	defer func() { err = errors.Join(err, c.runner.Close()) }()
	if _, err := c.runner.Measure(ctx, ABStage, []int{c.dflt, point, measure.Twin}, job.Rounds); err != nil {
		return err
	}
	_, err = c.runner.Recheck(ctx, recheckStage, []int{c.dflt, point})
	return err
}
