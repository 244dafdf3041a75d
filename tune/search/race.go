package search

import (
	"context"
	"slices"

	"github.com/epbench/epbench/tune/record"
)

// race measures every point in a few rounds, and the best of them in more, as
// irace and successive halving do. The schedule is fixed: rounds are cheap, and
// a fixed schedule can be resumed exactly. Under a bound it screens random points, fewer
// than it has time for: the heats get their share.
func race(ctx context.Context, s *State) error {
	live, err := screen(ctx, s, schedule[0].rounds)
	if err != nil {
		return err
	}
	for i, heat := range schedule[1:] {
		live = s.Keep(live, int(schedule[i].keep*float64(len(live))+0.5))
		rounds := s.Rounds(len(live), heat.rounds)
		if err := s.Measure(ctx, heat.stage, live, rounds); err != nil {
			return err
		}
	}
	return nil
}

// schedule are the parts of a race: the rounds of each, and the share of its
// points that goes on to the next.
var schedule = []struct {
	stage  record.Stage
	rounds int
	keep   float64
}{
	{record.StageScreen, 3, 0.30},
	{record.StageHalving1, 5, 0.40},
	{record.StageHalving2, 10, 1},
}

// chunk is how many fresh points are screened at a time under a time limit.
const chunk = 24

// gridRounds of every point, gridStep at a time: a block that is lost costs little, and
// rounds in pairs turn their order around.
const (
	gridRounds = 10
	gridStep   = 2
)

// grid measures every point of the space in as many rounds, side by side. Under a
// bound it measures those that a random order puts first.
func grid(ctx context.Context, s *State) error {
	if s.Timed() {
		_, err := screen(ctx, s, gridRounds)
		return err
	}
	live := append(slices.Clone(s.Required), s.Shuffled()...)
	for range gridRounds / gridStep {
		if err := s.Measure(ctx, record.StageScreen, live, gridStep); err != nil {
			return err
		}
	}
	return nil
}

// screen measures every point that the budget admits, and returns them. Without
// a time limit all points are in the same rounds. With one they come in chunks,
// so that the search can stop between them; the default and the two best points
// so far are in every chunk, and link its rounds to those before.
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

// RaceSamples is how many timings a race of n points takes before its finals.
func RaceSamples(n int) int {
	total := 0
	for _, heat := range schedule {
		total += n * heat.rounds
		n = int(heat.keep*float64(n) + 0.5)
	}
	return total
}
