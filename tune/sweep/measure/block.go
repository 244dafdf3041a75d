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

// attempts is the number of times that a block is measured before the machine counts as lost.
// It is two because a worker can be restarted once.
const attempts = 2

// measureBlock measures a block, which is some rounds of the same candidates, and appends it to the
// log. If the session is lost, it measures the whole block again.
func (r *Runner) measureBlock(ctx context.Context, measure func() ([]record.Result, error)) (lines []record.Result, wall float64, err error) {
	start := r.Lap.start()
	for range attempts {
		if lines, err = measure(); err == nil || ctx.Err() != nil {
			break
		}
		r.Close() // its error adds nothing to err
	}
	if ctx.Err() != nil {
		return nil, 0, ctx.Err()
	}
	if errors.Is(err, ErrOpen) && r.clock == "" {
		return nil, 0, err // nothing has run yet: the backend refuses this workload
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

// block measures a block: it opens a session if there is none, admits the candidates, and times
// them in `rounds` rounds.
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

// line starts the record of a candidate in a block.
func (r *Runner) line(stage record.Stage, block, point int) record.Result {
	w := r.Workload
	return record.Result{
		Problem: w.Problem, Routing: w.Spec, Seed: w.Seed, Config: r.Config(point), Cost: r.Cost(r.Config(point)), Role: r.role(point),
		Stage: stage, Block: block, Session: r.opened, Status: ep.OK, Round0: r.round,
	}
}

// requireCheckAgain marks the points of failed lines as not ready: admit prepares and checks
// them before they run again.
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

// stagesOf returns the stages of a layer's config. A worker measures the stages in the first run of
// a config, even if that run is not recorded.
func (r *Runner) stagesOf(c ep.Config, now []ep.StageTime) []ep.StageTime {
	if len(now) > 0 {
		if r.stages == nil {
			r.stages = map[string][]ep.StageTime{}
		}
		r.stages[c.Key()] = now
	}
	return r.stages[c.Key()]
}

// sampleSeconds returns the seconds that the samples of a worker's answer took: the sum over rounds
// of the slowest rank's time.
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

// Warm runs the default once without recording it, if the default is ready. The GPU then switches
// from the process that used it before, and no recorded time contains the switch. Warm ignores an
// error, because the rounds will fail too.
func (r *Runner) Warm(ctx context.Context) {
	if r.session != nil && r.ready[r.Default] {
		_, _ = r.run(ctx, r.Config(r.Default), kernels.RunSpec{Rounds: 1, Fold: max(r.fold, 1)})
	}
}

// maxReason is the largest number of bytes of a reason in the log. Longer reasons are shortened.
const maxReason = 8 << 10

// attributeFailure writes a candidate's failure to its line. It returns any other error.
func attributeFailure(err error, line *record.Result) error {
	var f *kernels.Failure
	if !errors.As(err, &f) {
		return err
	}
	line.Status, line.Reason, line.Seconds, line.Beside = f.Status, ep.Shorten(f.Reason, maxReason), nil, nil
	return nil
}

// chooseFold decides once for a search how many calls make a sample: enough for the default's
// sample to last as long as the policy asks.
func (r *Runner) chooseFold(ctx context.Context) error {
	if r.fold > 0 || !r.ready[r.Default] && !r.ready[search.Twin] {
		return nil
	}
	got, err := r.run(ctx, r.Config(r.Default), kernels.RunSpec{Rounds: 5, Fold: 1})
	if err != nil {
		return attributeFailure(err, &record.Result{}) // if it fails here, the rounds will fail too
	}
	trial, sample := record.Result{Seconds: got.Seconds}, r.Policy.MinSample
	if got.Beside != nil {
		trial.Seconds, sample = got.Beside.Call, besideSamples*sample
	}
	whole := slices.DeleteFunc(trial.Rounds(), func(t float64) bool { return t <= kernels.LeastReading })
	if len(whole) == 0 {
		return nil // all rounds were disturbed: the next block tries again
	}
	least := slices.Min(whole)
	r.fold = int(min(max(1, math.Ceil(sample/least)), float64(r.Policy.MaxFold)))
	return nil
}

// rounds times every line without failure once in each round. It draws an order and reverses it in
// the next round, so that of any two lines each runs first equally often.
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

// failDisturbed fails the lines whose rounds are disturbed, see kernels.Disturbed. The worker
// cannot detect this, because it sees one round at a time.
func (r *Runner) failDisturbed(live []int, lines []record.Result) error {
	for i := range lines {
		if lines[i].Status != ep.OK || !kernels.Disturbed(lines[i].Rounds()) {
			continue
		}
		err := attributeFailure(kernels.Failf(ep.Unstable, "half or more of %d rounds took no time: calls are shorter than the disturbances of the clock", len(lines[i].Seconds)), &lines[i])
		if err != nil {
			return err
		}
	}
	r.requireCheckAgain(live, lines)
	return nil
}

// runAll runs every line once, in this order, and calls `keep` with each line and its rounds. It
// writes a candidate's failure to its line.
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

// runRound runs a round of each line, up to the first line of another session. It returns the
// rounds of the lines that ran; an error belongs to the line after them.
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

// addRound adds a round to its line, or writes the round's failure to the line.
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

// round rounds to seven digits. No clock has more digits, and logs become half as long.
func round(x float64) float64 {
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', 6, 64), 64)
	return y
}

// Prepare opens a session, compares points with the oracle and warms them up. The log holds the comparison
// as a block. A point that fails is checked again by the next block, and fails there.
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

// Recheck compares points with the oracle again, after they were timed, and reports which of them
// are still right. The log holds the comparison as a block.
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
