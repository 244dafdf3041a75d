package search

import (
	"context"
	"slices"

	"github.com/epbench/epbench/tune/record"
)

// coord tries all values of one parameter around the best point, then of the
// next, and around again: cheap where parameters hardly interact, as the
// dispatch and the combine side of a pair.
type coord struct{}

func (coord) Search(ctx context.Context, h *Hunt) error {
	if err := h.Measure(ctx, record.StageStart, h.Required, ScreenRounds); err != nil {
		return err
	}
	at := h.Ranked(h.Required)[0]
	for h.Left() > 0 {
		top, err := sweepAxes(ctx, h, at)
		if err != nil {
			return err
		}
		if top != at {
			at = top
			continue
		}
		rest := h.Shuffled()
		if len(rest) == 0 {
			return nil
		}
		at = rest[0]
		if err := h.Measure(ctx, record.StageRestart, []int{at}, ScreenRounds); err != nil {
			return err
		}
		if h.dead[at] {
			at = h.Ranked(h.Measured())[0]
		}
	}
	return nil
}

// sweepAxes goes once through the parameters of a point, those with the fewest
// values first: they are mostly whole algorithms, which a search that ends in
// the middle of a long axis must not miss.
func sweepAxes(ctx context.Context, h *Hunt, at int) (int, error) {
	axes := slices.Clone(h.Space.axes(h.Space.Config(at).Kernel))
	slices.SortStableFunc(axes, func(a, b Axis) int { return len(a.Values) - len(b.Values) })
	for _, a := range axes {
		c := h.Space.Config(at)
		line := []int{at}
		for _, v := range a.Values {
			if i, ok := h.Space.Index(c.With(a.Name, v)); ok && h.Fresh(i) {
				line = append(line, i)
			}
		}
		if len(line) == 1 {
			continue
		}
		if err := h.Measure(ctx, record.StageAxis, line, ScreenRounds); err != nil {
			return at, err
		}
		if best := h.Ranked(slices.DeleteFunc(line, h.Fresh)); len(best) > 0 {
			at = best[0]
		}
	}
	return at, nil
}
