package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/sweep/measure"
)

// Job is a measurement without a search: how many rounds of each config, and
// where trials and searches are written.
type Job struct {
	Rounds int
	Log    measure.Log
	Run    *record.Run
}

// Picker chooses a config for a problem under a routing class, and says where
// it comes from. A zero config asks for the default.
type Picker func(ep.Problem, ep.Class) (c ep.Config, reason string, err error)

// Bench measures one config a problem beside the default, without a search.
// Results are put into the job's run as they are made.
func Bench(ctx context.Context, b kernels.Backend, opts *Options, job Job, pick Picker) error {
	l := newLab(b, newPlanner(b, opts), job.Log)
	return eachSubject(opts, job.Run, func(s *subject) error {
		cfg, reason, err := pick(s.problem, s.class)
		if err != nil {
			return err
		}
		result, err := l.bench(ctx, s, cfg, job.Rounds)
		if err != nil {
			return err
		}
		if result.Decision.Reason == "" {
			result.Decision.Reason = reason
		}
		job.Run.Searches = append(job.Run.Searches, result)
		return nil
	})
}

// eachSubject draws every problem under every routing and does do with it.
func eachSubject(opts *Options, run *record.Run, do func(*subject) error) error {
	for _, p := range opts.Problems {
		for _, d := range opts.Distributions {
			s := newSubject(p, d, opts.Seed)
			if err := s.draw(opts.Seed); err != nil {
				return err
			}
			if err := do(&s); err != nil {
				return err
			}
			run.Workloads = append(run.Workloads, s.record())
		}
	}
	run.Finished = time.Now().UTC()
	return nil
}

// bench measures one config against the default and compares both with the
// oracle again afterwards.
func (l *lab) bench(ctx context.Context, s *subject, cfg ep.Config, rounds int) (result record.Search, err error) {
	dflt, err := l.planner.defaultConfig(s.problem)
	if err != nil {
		return result, err
	}
	if cfg.IsDefault() {
		cfg = dflt
	}
	c, err := l.contest(s, "bench", dflt, cfg)
	if err != nil {
		return result, err
	}
	defer func() { err = c.close(err) }()
	result, err = l.match(ctx, c, record.StageBench, rounds, record.Band{Policy: l.policy.Band})
	if err != nil || !result.OK() {
		return result, err
	}
	_, err = c.runner.Recheck(ctx, record.StageRecheck, c.points)
	return result, err
}

// match measures the second config of a contest against the first and says
// how they compare. A config that fails is a decision with the cause failed.
func (l *lab) match(ctx context.Context, c *contest, stage record.Stage, rounds int, band record.Band) (record.Search, error) {
	result := c.newResult()
	dflt, cfg := c.space.Config(c.points[0]), c.space.Config(c.points[1])
	win, base, err := c.hunt.Duel(ctx, stage, c.points[1], rounds)
	if err != nil && !errors.Is(err, search.ErrDefault) {
		return result, err
	}
	if failed := c.runner.Failures(); err != nil || failed[c.points[1]] != nil {
		result.Decision = record.Decision{Config: cfg, Default: dflt, Challenger: cfg, Band: band, Verdict: record.Undecided,
			Cause: record.NoDefault, Reason: failure(failed, c.points[0])}
		if f := failed[c.points[1]]; f != nil {
			result.Decision.Cause, result.Decision.Reason = record.Failed, f.Error()
		}
		result.Failed = len(failed)
		return result, nil
	}
	result.Decision = stat.Compare(stat.Match{Config: cfg, Default: dflt, Gain: win.Gain(base, c.runner.Seed("gain")), Rounds: win.Rounds, Band: band})
	file(&result, c.hunt, c.runner, win, base)
	return result, nil
}

// file writes what was measured of the winner and the default.
func file(s *record.Search, h *search.Hunt, r *measure.Runner, win, dflt search.Finalist) {
	s.Clock, s.Times, s.DefaultTime = r.Clock(), win.Times, dflt.Times
	s.MaxErr, s.Tried, s.Failed = r.MaxErr(win.Point), h.Tried(), len(r.Failures())
}

// failure is why the default did not run, under its own label or its twin's.
func failure(failed map[int]*kernels.Failure, dflt int) string {
	for _, point := range []int{dflt, search.Twin} {
		if f := failed[point]; f != nil {
			return "the default did not run: " + f.Error()
		}
	}
	return "the default did not run"
}
