package search

import (
	"context"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// race measures every point in a few rounds, and the best points in more rounds. The schedule is fixed, so that a
// resumed run repeats it.
func race(ctx context.Context, s *State) error {
	live, err := screen(ctx, s, schedule[0].rounds)
	if err != nil {
		return err
	}
	for i, pass := range schedule[1:] {
		live = s.Keep(live, int(schedule[i].keep*float64(len(live))+0.5))
		rounds := s.Rounds(len(live), pass.rounds)
		if err := s.Measure(ctx, pass.stage, live, rounds); err != nil {
			return err
		}
	}
	return nil
}

// schedule lists the passes of a race: their rounds, and the share of points that the next pass takes.
var schedule = []struct {
	stage  record.Stage
	rounds int
	keep   float64
}{
	{record.StageScreen, 3, 0.30},
	{record.StageHalving1, 5, 0.40},
	{record.StageHalving2, 10, 1},
}

// chunk is the number of new points in a block under a time limit.
const chunk = 24

// A grid search measures every point in gridRounds rounds, in blocks of gridStep rounds.
const (
	gridRounds = 10
	gridStep   = 2
)

// grid measures every point in gridRounds rounds, or random points if the budget is small.
func grid(ctx context.Context, s *State) error { return s.measureAll(ctx, gridRounds) }

func (s *State) measureAll(ctx context.Context, rounds int) error {
	if s.Timed() {
		_, err := screen(ctx, s, rounds)
		return err
	}
	live := append(slices.Clone(s.Required), s.Shuffled()...)
	for range rounds / gridStep {
		if err := s.Measure(ctx, record.StageScreen, live, gridStep); err != nil {
			return err
		}
	}
	return nil
}

const gridPrefix = "grid:"

const gridShare = 50

const mostGridRounds = 100_000

// gridTo returns a grid search that goes on with the points that may be among the fastest, in up to `most` rounds.
// Under a time limit, it does not go on.
func gridTo(most int) Strategy {
	return func(ctx context.Context, s *State) error {
		done := max(gridRounds, most/gridShare/gridStep*gridStep)
		if err := s.measureAll(ctx, done); err != nil || s.Timed() {
			return err
		}
		for done < most {
			live := s.undecided()
			if len(live) == 0 {
				return nil
			}
			for end := min(2*done, most); done < end; {
				n := min(gridRounds, end-done)
				if err := s.Measure(ctx, record.StageScreen, live, n); err != nil {
					return err
				}
				done += n
			}
		}
		return nil
	}
}

// undecided returns the points that may be among the fastest.
func (s *State) undecided() (out []int) {
	fs := s.adjustedPoints()
	for _, f := range fs {
		slower := f.Effect - fs[0].Effect - math.Log1p(s.Band)
		if slower <= undecidedErrors*fs[0].stdErrOfDifference(f) && stat.StdErr(f.adjusted) > s.Band/4 {
			out = append(out, f.Point)
		}
	}
	return out
}

// undecidedErrors says how many standard errors make a point certainly slower. Two would be too few, because the
// fastest of hundreds of points may only be lucky.
const undecidedErrors = 4

// screen measures as many points as the budget allows, and returns them. Under a time limit it measures `chunk` new
// points at a time.
func screen(ctx context.Context, s *State, rounds int) ([]int, error) {
	fresh := s.Shuffled()
	size := len(fresh)
	if s.Timed() {
		size = chunk
	}
	batch := slices.DeleteFunc(slices.Clone(s.Required), s.measured)
	for {
		n := min(size, len(fresh))
		batch = append(batch, fresh[:n]...)
		fresh = fresh[n:]
		if err := s.Measure(ctx, schedule[0].stage, batch, rounds); err != nil {
			return nil, err
		}
		if len(fresh) == 0 || s.Left() == 0 || s.Timed() && s.searchTime() < s.laterTime() {
			return s.Measured(), nil
		}
		best := s.Ranked(s.Measured())
		batch = slices.Clone(best[:min(2, len(best))])
	}
}

// RaceSamples returns how many samples a race of n points takes before its finals.
func RaceSamples(n int) int {
	total := 0
	for _, pass := range schedule {
		total += n * pass.rounds
		n = int(pass.keep*float64(n) + 0.5)
	}
	return total
}
