package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/workloads"
)

// A Job is a measurement without a search.
type Job struct {
	Rounds   int // of each session
	Sessions int // 0 means one session
	Log      measure.Log
	Run      *record.Run // receives the results
	Over     Picker      // chooses the config to compare with; nil for the default
}

// A Picker chooses a config and says where the config comes from. A zero config stands for the default.
type Picker func(ep.Problem, ep.Class) (c ep.Config, reason string, err error)

// Bench measures one config of each problem against the default, without a search. It adds results to the job's run as
// they are made.
func Bench(ctx context.Context, b kernels.Backend, opts *Options, job Job, pick Picker) error {
	l := newHarness(b, newPlanner(b, opts), job.Log)
	if job.Sessions == 0 && b.Machine().GPUs > 0 {
		job.Run.Warnings = append(job.Run.Warnings, oneSession)
	}
	return eachRoutedProblem(opts, job.Run, func(s *routedProblem) error {
		cfg, reason, err := pick(s.problem, s.class)
		if err != nil {
			return err
		}
		over, reference, err := job.over(s)
		if err != nil {
			return err
		}
		result, err := l.bench(ctx, s, cfg, over, job.Rounds, job.Sessions)
		result.Reference = reference
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

func (j Job) over(s *routedProblem) (ep.Config, string, error) {
	if j.Over == nil {
		return ep.Config{}, "", nil
	}
	return j.Over(s.problem, s.class)
}

func eachRoutedProblem(opts *Options, run *record.Run, do func(*routedProblem) error) error {
	for _, p := range opts.Problems {
		for _, d := range opts.Distributions {
			s, err := newRoutedProblem(p, d, opts.Seed)
			if err != nil {
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

func (l *harness) bench(ctx context.Context, s *routedProblem, cfg, over ep.Config, rounds, sessions int) (result record.Search, err error) {
	dflt, err := l.planner.defaultConfig(s.problem)
	if err != nil {
		return result, err
	}
	if cfg.IsDefault() {
		cfg = dflt
	}
	if over.IsDefault() {
		over = dflt
	}
	c, err := l.newComparison(s, "bench", over, cfg)
	if err != nil {
		return result, err
	}
	defer func() { err = c.close(err) }()
	return l.decideComparison(ctx, c, record.StageBench, rounds, sessions, record.Band{Policy: l.policy.Band})
}

// decideComparison measures the second config of a comparison against the first, and checks the outputs of both again.
// Then it decides.
func (l *harness) decideComparison(ctx context.Context, c *comparison, stage record.Stage, rounds, sessions int, band record.Band) (record.Search, error) {
	result, m := c.newResult(), c.undecided(band)
	cfg, dflt, err := c.measure(ctx, stage, rounds, sessions)
	if err == nil && cfg.Rounds > 0 { // a config that hung does not run again
		_, err = c.runner.Recheck(ctx, record.StageRecheck, slices.Compact(slices.Clone(c.points)))
	}
	if err != nil && !errors.Is(err, search.ErrDefault) {
		return result, err
	}
	result.Failed = len(c.runner.Failures())
	if cause, reason := c.failureCause(err); cause != "" {
		result.Decision = stat.Fail(m, cause, reason)
		return result, nil
	}
	m.Gain = cfg.Gain(dflt)
	result.Decision = stat.Compare(m)
	result.Decision.Sessions = sessions
	recordTimes(&result, c.state, c.runner, cfg, dflt)
	return result, nil
}

const oneSession = "the interval comes from one session; times differ by some per cent from session to session: measure with --sessions 3"

// measure measures both configs of a comparison. cfg holds the times of the second config, and dflt those of the first.
// If the second failed, cfg.Rounds is 0.
func (c *comparison) measure(ctx context.Context, stage record.Stage, rounds, sessions int) (cfg, dflt search.Finalist, err error) {
	if sessions == 0 {
		return c.state.MeasureAgainstDefault(ctx, stage, c.points[1], search.StopRule{MinRounds: rounds, MaxRounds: rounds})
	}
	var all [][]search.Finalist
	for range sessions {
		if err := c.runner.Close(); err != nil {
			return cfg, dflt, err
		}
		finals, err := c.state.MeasureFresh(ctx, stage, c.points[1:], nil, rounds)
		if err != nil {
			return cfg, dflt, err
		}
		all = append(all, finals)
		if !slices.ContainsFunc(finals, isPoint(c.points[1])) {
			return cfg, dflt, nil
		}
	}
	for _, f := range search.MergeSessions(all) {
		if f.Point == c.points[1] {
			cfg = f
		}
		if f.Point == c.points[0] {
			dflt = f
		}
	}
	return cfg, dflt, nil
}

func (c *comparison) failureCause(err error) (record.Cause, string) {
	failed := c.runner.Failures()
	dflt, cfg := c.points[0], c.points[1]
	switch {
	case cfg != dflt && failed[cfg] != nil:
		return record.Failed, failed[cfg].Error()
	case err != nil || failed[dflt] != nil:
		return record.NoDefault, defaultFailure(failed, dflt)
	}
	return "", ""
}

func recordTimes(s *record.Search, h *search.State, r *measure.Runner, win, dflt search.Finalist) {
	s.Clock, s.Times, s.DefaultTimes = r.Clock(), win.Times, dflt.Times
	s.Pace = r.Pace()
	s.MaxErr, s.Tried, s.Failed = r.MaxErr(win.Point), h.Tried(), len(r.Failures())
	s.Beside = besidePair(r, win.Point, dflt.Point)
}

func defaultFailure(failed map[int]*kernels.Failure, dflt int) string {
	if f := failureOfDefault(failed, dflt); f != nil {
		return "the default failed: " + f.Error()
	}
	return "the default failed"
}

func failureOfDefault(failed map[int]*kernels.Failure, dflt int) *kernels.Failure {
	return cmp.Or(failed[dflt], failed[search.Twin])
}

// AB measures two configs of each problem under every routing. The first config runs twice in each round. In the log,
// it has the role of the default.
func AB(ctx context.Context, b kernels.Backend, opts *Options, job Job, configs map[ep.Problem][]ep.Config) error {
	l := newHarness(b, newPlanner(b, opts), job.Log)
	return eachRoutedProblem(opts, job.Run, func(s *routedProblem) (err error) {
		c, err := l.newComparison(s, "ab", configs[s.problem]...)
		if err != nil {
			return err
		}
		defer func() { err = c.close(err) }()
		if _, err := c.runner.Measure(ctx, record.StageAB, append(c.points, search.Twin), job.Rounds); err != nil {
			return err
		}
		_, err = c.runner.Recheck(ctx, record.StageRecheck, c.points)
		return err
	})
}

// A RowVerifier measures single configs against the default. It logs nothing.
type RowVerifier struct {
	harness *harness
	head    table.Header
	seed    uint64
}

// Claimed returns the gain that a row claims.
func (m *RowVerifier) Claimed(r *table.Row) record.Interval {
	low, high := m.head.GainInterval(*r)
	return record.Interval{Mid: r.Evidence.Gain, Low: low, High: high}
}

// NewRowVerifier makes a RowVerifier for a table with this header. The default obeys the header's bound on SMs, and has
// the header's values of the parameters that only the caller sets (hooks).
func NewRowVerifier(b kernels.Backend, policy measure.Policy, head table.Header, seed uint64) *RowVerifier {
	l := newHarness(b, newPlanner(b, &Options{MaxSMs: head.MaxSMs, Params: kernels.ParseHooks(head.Hooks), Seed: seed}), nil)
	l.policy = policy
	return &RowVerifier{l, head, seed}
}

// Verify measures a config of a problem under a routing spec. The number of sessions is at least the policy's, and at
// most maxVerifySessions. A config that does not run gives a decision with the cause record.Failed. An error means that
// the machine is lost.
func (m *RowVerifier) Verify(ctx context.Context, p ep.Problem, routing string, cfg ep.Config, sessions int) (result record.Search, err error) {
	c, err := m.newComparison(p, routing, cfg)
	if err != nil {
		return record.Search{Problem: p, Routing: routing, Decision: stat.Fail(stat.Comparison{Config: cfg}, record.Failed, err.Error())}, nil
	}
	defer func() { err = c.close(err) }()
	aa, err := m.harness.measureAA(ctx, c.runner, 0)
	band := record.Band{Policy: m.harness.policy.Band, AA: aa.Spread}
	if errors.Is(err, search.ErrDefault) {
		result = c.newResult()
		_, reason := c.failureCause(err)
		result.Decision = stat.Fail(c.undecided(band), record.NoDefault, reason)
		return result, nil
	}
	if err != nil {
		return result, err
	}
	rounds := max(m.harness.policy.MaxRounds, aa.Rounds)
	if sessions = min(max(sessions, m.harness.policy.Sessions), maxVerifySessions); sessions > 0 {
		rounds = m.harness.policy.ConfirmRounds
	}
	return m.harness.decideComparison(ctx, c, record.StageVerify, rounds, sessions, band)
}

const maxVerifySessions = 5

func (m *RowVerifier) newComparison(p ep.Problem, routing string, cfg ep.Config) (*comparison, error) {
	d, err := workloads.Parse(routing)
	if err != nil {
		return nil, fmt.Errorf("routing %s: %w", routing, err)
	}
	s, err := newRoutedProblem(p, d, m.seed)
	if err != nil {
		return nil, fmt.Errorf("routing %s: %w", routing, err)
	}
	dflt, err := m.harness.planner.defaultConfig(p)
	if err != nil {
		return nil, err
	}
	return m.harness.newComparison(&s, "verify", dflt, kernels.Current(m.harness.planner.allKernels, cfg))
}
