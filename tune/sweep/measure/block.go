package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
)

// attempts bounds the tries of a block. It is two because a worker can be restarted once.
const attempts = 2

// measureBlock measures and logs a block. If the session is lost, it measures the whole block again.
func (r *Runner) measureBlock(ctx context.Context, measure func() ([]record.Result, error)) (lines []record.Result, wall float64, err error) {
	start := r.Lap.start()
	for range attempts {
		if lines, err = measure(); err == nil || ctx.Err() != nil {
			break
		}
		r.Close()
	}
	if ctx.Err() != nil {
		return nil, 0, ctx.Err()
	}
	if errors.Is(err, ErrOpen) && r.clock == "" {
		return nil, 0, err
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrLost, err)
	}
	wall = round(time.Since(start).Seconds())
	if r.Log != nil {
		stop := stopwatch(&r.Wall.Writing)
		err = r.Log.Append(lines, wall)
		stop()
	}
	return lines, wall, err
}

func (r *Runner) block(ctx context.Context, stage record.Stage, block int, live []int, rounds int) ([]record.Result, error) {
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	lines := make([]record.Result, len(live))
	for i, point := range live {
		lines[i] = r.line(stage, block, point)
	}
	r.placeTwin(ctx, live)
	if err := r.admit(ctx, live, lines); err != nil {
		return nil, err
	}
	r.warnOfTwin(lines)
	if err := r.chooseFold(ctx); err != nil {
		return nil, err
	}
	if err := r.rounds(ctx, live, lines, rounds, r.rng(stage, block)); err != nil {
		return nil, err
	}
	shareBase(lines)
	for i := range lines {
		lines[i].Warnings = appendNew(lines[i].Warnings, stragglerWarnings(&lines[i])...)
	}
	return lines, nil
}

func (r *Runner) open(ctx context.Context) (err error) {
	if r.session != nil {
		return nil
	}
	defer stopwatch(&r.Wall.Opening)()
	if r.session, err = r.Backend.Open(ctx, r.Workload); err != nil {
		r.session = nil
		return fmt.Errorf("%w: %w", ErrOpen, err)
	}
	r.ready = map[int]bool{}
	r.opened++
	return nil
}

func (r *Runner) line(stage record.Stage, block, point int) record.Result {
	w := r.Workload
	return record.Result{
		Problem: w.Problem, Routing: w.Spec, Seed: w.Seed, Config: r.Config(point), Cost: r.Cost(r.Config(point)), Role: r.role(point),
		Stage: stage, Block: block, Session: r.opened, Status: ep.OK, Round0: r.round,
	}
}

func (r *Runner) requireCheckAgain(live []int, lines []record.Result) {
	for i := range lines {
		if lines[i].Status != ep.OK {
			r.ready[live[i]] = false
		}
	}
}

func (r *Runner) run(ctx context.Context, c ep.Config, spec kernels.RunSpec) (kernels.Rounds, error) {
	defer stopwatch(&r.Wall.Measuring)()
	got, err := r.session.Run(ctx, c, spec)
	r.Wall.Run = r.Wall.Run.Plus(got.Took)
	got.Stages = r.stagesOf(c, got.Stages)
	return got, err
}

// stagesOf returns the stage times of a layer's config. A worker measures them only in the first run of the config.
// Then `now` holds them, and stagesOf keeps them for later runs.
func (r *Runner) stagesOf(c ep.Config, now []ep.StageTime) []ep.StageTime {
	if len(now) > 0 {
		if r.stages == nil {
			r.stages = map[string][]ep.StageTime{}
		}
		r.stages[c.Key()] = now
	}
	return r.stages[c.Key()]
}

func sampleSeconds(got kernels.Rounds) (seconds float64) {
	rounds := got.Seconds
	if got.Beside != nil {
		rounds = got.Beside.Call
	}
	for _, ranks := range rounds {
		seconds += float64(max(got.Fold, 1)) * slices.Max(append([]float64{0}, ranks...))
	}
	return seconds
}

// Warm runs the default once and does not record the time, which includes the GPU's switch from another process.
func (r *Runner) Warm(ctx context.Context) {
	if r.session != nil && r.ready[r.Default] {
		_, _ = r.run(ctx, r.Config(r.Default), kernels.RunSpec{Rounds: 1, Fold: max(r.fold, 1)})
	}
}

const maxReason = 8 << 10

func attributeFailure(err error, line *record.Result) error {
	var f *kernels.Failure
	if !errors.As(err, &f) {
		return err
	}
	line.Status, line.Reason, line.Seconds, line.Beside = f.Status, ep.Shorten(f.Reason, maxReason), nil, nil
	return nil
}

// chooseFold sets the number of calls in a sample, so that a sample is as long as the policy demands. It does this
// once.
func (r *Runner) chooseFold(ctx context.Context) error {
	if r.fold > 0 || !r.ready[r.Default] && !r.ready[search.Twin] {
		return nil
	}
	got, err := r.run(ctx, r.Config(r.Default), kernels.RunSpec{Rounds: 5, Fold: 1})
	if err != nil {
		return attributeFailure(err, &record.Result{}) // not recorded here: the rounds will fail too
	}
	trial, sample := record.Result{Seconds: got.Seconds}, r.Policy.MinSample
	if got.Beside != nil {
		trial.Seconds, sample = got.Beside.Call, besideSamples*sample
	}
	whole := slices.DeleteFunc(trial.Rounds(), func(t float64) bool { return t <= kernels.LeastReading })
	if len(whole) == 0 {
		return nil // the next block tries again
	}
	least := slices.Min(whole)
	r.fold = int(min(max(1, math.Ceil(sample/least)), float64(r.Policy.MaxFold)))
	return nil
}

// rounds measures the config of every line once in each round. Every second round reverses the order of the round
// before it. So of any two configs, each runs before the other equally often.
func (r *Runner) rounds(ctx context.Context, live []int, lines []record.Result, rounds int, rng *rand.Rand) error {
	var order []int
	for k := range rounds {
		if k%2 == 0 {
			order = rng.Perm(len(live))
		} else {
			slices.Reverse(order)
		}
		var turns []*record.Result
		for _, i := range order {
			if lines[i].Status == ep.OK {
				turns = append(turns, &lines[i])
			}
		}
		if err := r.runAll(ctx, turns, r.addRound); err != nil {
			return err
		}
		r.requireCheckAgain(live, lines)
	}
	return r.failDisturbed(live, lines)
}

func (r *Runner) failDisturbed(live []int, lines []record.Result) error {
	for i := range lines {
		if lines[i].Status != ep.OK || !kernels.Disturbed(lines[i].Rounds()) {
			continue
		}
		err := attributeFailure(kernels.Failf(ep.Unstable, "the measured time was 0 or less in half or more of %d rounds: the calls are too short for this clock", len(lines[i].Seconds)), &lines[i])
		if err != nil {
			return err
		}
	}
	r.requireCheckAgain(live, lines)
	return nil
}

func (r *Runner) runAll(ctx context.Context, left []*record.Result, keep func(*record.Result, kernels.Rounds) error) error {
	for len(left) > 0 {
		got, err := r.runRound(ctx, left)
		for i, g := range got {
			if err := keep(left[i], g); err != nil {
				return err
			}
		}
		left = left[len(got):]
		if err == nil {
			continue
		}
		if err := attributeFailure(err, left[0]); err != nil {
			return err
		}
		left = left[1:]
	}
	return nil
}

// runRound measures the first line, and the lines directly after it that use the same session. It returns one round for
// each measured line. If there is an error, the first line without a round caused it.
func (r *Runner) runRound(ctx context.Context, lines []*record.Result) ([]kernels.Rounds, error) {
	defer stopwatch(&r.Wall.Measuring)()
	lines = r.sameSession(lines)
	var turns []kernels.Turn
	for _, line := range lines {
		turns = append(turns, kernels.Turn{Config: line.Config, Fold: max(r.fold, 1)})
	}
	got, err := kernels.RunTurns(ctx, r.sessionOf(lines[0]), turns)
	for i := range min(len(got), len(lines)) {
		got[i].Stages = r.stagesOf(lines[i].Config, got[i].Stages)
	}
	if n := len(got); n > len(lines) || n == len(lines) && err != nil || n == 0 && err == nil {
		return nil, fmt.Errorf("the backend returned %d rounds for %d turns, error %v", n, len(lines), err)
	}
	return got, err
}

func (r *Runner) addRound(line *record.Result, got kernels.Rounds) error {
	r.Wall.Run = r.Wall.Run.Plus(got.Took)
	err := appendRound(line, got)
	if err == nil {
		r.Wall.Samples += sampleSeconds(got)
	}
	return attributeFailure(err, line)
}

func appendRound(line *record.Result, got kernels.Rounds) error {
	if len(got.Seconds) != 1 || len(got.Seconds[0]) == 0 {
		return kernels.Failf(ep.Unstable, "the backend returned %d rounds, want 1 with the time of at least one rank", len(got.Seconds))
	}
	for i, t := range got.Seconds[0] {
		if !(t > 0) || math.IsInf(t, 1) {
			return kernels.Failf(ep.Unstable, "rank %d took %v s", i, t)
		}
	}
	if err := addBeside(line, got.Beside); err != nil {
		return err
	}
	line.Seconds = append(line.Seconds, rounded(got.Seconds[0]))
	line.Clock, line.Fold, line.MHz, line.LayerStages = got.Clock, got.Fold, got.MHz, got.Stages
	line.Warnings = appendNew(line.Warnings, got.Notes...)
	return nil
}

func rounded(ranks []float64) []float64 {
	out := make([]float64, len(ranks))
	for i, t := range ranks {
		out[i] = round(t)
	}
	return out
}

// round keeps seven digits, because clocks have no more.
func round(x float64) float64 {
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', 6, 64), 64)
	return y
}

// Prepare opens a session, checks the outputs of points, and warms the points up.
func (r *Runner) Prepare(ctx context.Context, stage record.Stage, points []int) error {
	lines, err := r.next(ctx, stage, points, func(block int) ([]record.Result, error) {
		if err := r.open(ctx); err != nil {
			return nil, err
		}
		lines := make([]record.Result, len(points))
		for i, point := range points {
			lines[i] = r.line(stage, block, point)
		}
		return lines, r.admit(ctx, points, lines)
	})
	if err == nil {
		r.flatten(points, lines)
	}
	return err
}

// Recheck checks the outputs of points again after the timing. It reports which points are correct.
func (r *Runner) Recheck(ctx context.Context, stage record.Stage, points []int) (right map[int]bool, err error) {
	lines, err := r.next(ctx, stage, points, func(block int) ([]record.Result, error) { return r.verifyBlock(ctx, stage, block, points) })
	if err != nil {
		return nil, err
	}
	r.flatten(points, lines)
	right = map[int]bool{}
	for i, point := range points {
		right[point] = lines[i].Status == ep.OK
	}
	return right, nil
}
