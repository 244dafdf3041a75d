package search

import (
	"context"
	"slices"

	"github.com/epbench/epbench/tune/record"
)

// ils is iterated local search: it walks from the best required candidate to
// the best point that differs in one parameter, until none is faster. Then it
// jumps to a fresh random point near the best and walks again.
func ils(ctx context.Context, s *State) error {
	if err := s.Measure(ctx, record.StageStart, s.Required, ScreenRounds); err != nil {
		return err
	}
	for at := s.Ranked(s.Required)[0]; s.Left() > 0; {
		top, err := climb(ctx, s, at)
		if err != nil {
			return err
		}
		if best := s.Ranked(s.Measured())[0]; s.Score(best) < s.Score(top) {
			top = best
		}
		if at = jump(s, top); at < 0 {
			return nil
		}
		if err := s.Measure(ctx, record.StageJump, []int{at, top}, ScreenRounds); err != nil {
			return err
		}
	}
	return nil
}

// climb moves to the best neighbour until none is faster.
func climb(ctx context.Context, s *State, at int) (int, error) {
	for s.Left() > 0 {
		near := slices.DeleteFunc(s.Space.Neighbors(at), s.measured)
		if len(near) == 0 {
			return at, nil
		}
		if err := s.Measure(ctx, record.StageClimb, append(near, at), ScreenRounds); err != nil {
			return at, err
		}
		next := s.Ranked(append(near, at))
		if len(next) == 0 || next[0] == at {
			return at, nil
		}
		at = next[0]
	}
	return at, nil
}

// kicks is how many parameters a jump changes.
const kicks = 3

// jump is a fresh point a few random steps away, else any fresh point, -1 where
// none is left.
func jump(s *State, from int) int {
	at := from
	for range kicks {
		if near := s.Space.Neighbors(at); len(near) > 0 {
			at = near[s.Rand.IntN(len(near))]
		}
	}
	if s.Fresh(at) {
		return at
	}
	if rest := s.Shuffled(); len(rest) > 0 {
		return rest[0]
	}
	return -1
}
