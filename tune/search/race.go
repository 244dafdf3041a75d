package search

import (
	"context"
	"slices"

	"github.com/epbench/epbench/tune/record"
)

// race measures everything a little and the promising more: the schedule of
// irace and successive halving, fixed because rounds are cheap and a fixed
// schedule resumes exactly.
type race struct{}

// heats are the rounds of a race: how many, and which share of those that ran
// may run the next.
var heats = []struct {
	stage  record.Stage
	rounds int
	keep   float64
}{
	{record.StageScreen, 3, 0.30},
	{record.StageHeat1, 5, 0.40},
	{record.StageHeat2, 10, 1},
}

// chunk is how many fresh points a race under a time limit screens at a time,
// so that it can stop between them.
const chunk = 24

func (race) Search(ctx context.Context, s *State) error {
	live, err := screen(ctx, s, heats[0].rounds)
	if err != nil {
		return err
	}
	for i, heat := range heats[1:] {
		live = s.Keep(live, int(heats[i].keep*float64(len(live))+0.5))
		rounds := s.Rounds(len(live), heat.rounds)
		if err := s.Measure(ctx, heat.stage, live, rounds); err != nil {
			return err
		}
	}
	return nil
}

// screen measures every point the budget admits, and returns them. Without a
// time limit all share the same rounds; with one, chunks of them do, linked by
// the default and the best seen.
func screen(ctx context.Context, s *State, rounds int) ([]int, error) {
	fresh := s.Shuffled()
	size := len(fresh)
	if s.Timed() {
		size = chunk
	}
	batch := slices.Clone(s.Required)
	for {
		n := min(size, len(fresh))
		batch = append(batch, fresh[:n]...)
		fresh = fresh[n:]
		if err := s.Measure(ctx, heats[0].stage, batch, rounds); err != nil {
			return nil, err
		}
		if len(fresh) == 0 || s.Left() == 0 {
			return s.Measured(), nil
		}
		best := s.Ranked(s.Measured())
		batch = slices.Clone(best[:min(2, len(best))])
	}
}

// RaceSamples is how many timings a race of n points takes before its finals.
func RaceSamples(n int) int {
	total := 0
	for _, heat := range heats {
		total += n * heat.rounds
		n = int(heat.keep*float64(n) + 0.5)
	}
	return total
}
