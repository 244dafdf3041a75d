package search

import (
	"context"
	"slices"

	"github.com/epbench/epbench/tune/record"
)

// ils walks greedily over points that differ in one parameter, from the best
// required candidate; at a local optimum it jumps to a fresh random point
// near the best and walks again.
type ils struct{}

// kicks is how many parameters a jump changes.
const kicks = 3

func (ils) Search(ctx context.Context, h *Hunt) error {
	if err := h.Measure(ctx, record.StageStart, h.Required, ScreenRounds); err != nil {
		return err
	}
	for at := h.Ranked(h.Required)[0]; h.Left() > 0; {
		top, err := climb(ctx, h, at)
		if err != nil {
			return err
		}
		if best := h.Ranked(h.Measured())[0]; h.Score(best) < h.Score(top) {
			top = best
		}
		if at = jump(h, top); at < 0 {
			return nil
		}
		if err := h.Measure(ctx, record.StageJump, []int{at, top}, ScreenRounds); err != nil {
			return err
		}
	}
	return nil
}

// climb moves to the best neighbour until none is faster.
func climb(ctx context.Context, h *Hunt, at int) (int, error) {
	for h.Left() > 0 {
		near := slices.DeleteFunc(h.Space.Neighbors(at), h.measured)
		if len(near) == 0 {
			return at, nil
		}
		if err := h.Measure(ctx, record.StageClimb, append(near, at), ScreenRounds); err != nil {
			return at, err
		}
		next := h.Ranked(append(near, at))
		if len(next) == 0 || next[0] == at {
			return at, nil
		}
		at = next[0]
	}
	return at, nil
}

// jump is a fresh point a few random steps from one, or any fresh point, or
// -1 when there is none.
func jump(h *Hunt, from int) int {
	at := from
	for range kicks {
		if near := h.Space.Neighbors(at); len(near) > 0 {
			at = near[h.Rand.IntN(len(near))]
		}
	}
	if h.Fresh(at) {
		return at
	}
	if rest := h.Shuffled(); len(rest) > 0 {
		return rest[0]
	}
	return -1
}
