package search

import (
	"context"
	"slices"

	"github.com/epbench/epbench/tune/record"
)

// coord tries all values of one parameter at the best point, then of the next
// parameter, and again from the first until nothing improves. It is cheap where
// parameters hardly interact, as those of the two halves of a pair.
func coord(ctx context.Context, s *State) error {
	if err := s.Measure(ctx, record.StageStart, s.Required, ScreenRounds); err != nil {
		return err
	}
	at := s.Ranked(s.Required)[0]
	for s.Left() > 0 {
		top, err := sweepAxes(ctx, s, at)
		if err != nil {
			return err
		}
		if top != at {
			at = top
			continue
		}
		rest := s.Shuffled()
		if len(rest) == 0 {
			return nil
		}
		at = rest[0]
		if err := s.Measure(ctx, record.StageRestart, []int{at}, ScreenRounds); err != nil {
			return err
		}
		if s.dead[at] {
			at = s.Ranked(s.Measured())[0]
		}
	}
	return nil
}

// sweepAxes goes once through the parameters of a point. Those with the fewest
// values come first: most of them choose an algorithm, and a search that ends in
// the middle of a long axis must not miss one.
func sweepAxes(ctx context.Context, s *State, at int) (int, error) {
	axes := slices.Clone(s.Space.axes(s.Space.Config(at).Kernel))
	slices.SortStableFunc(axes, func(a, b Axis) int { return len(a.Values) - len(b.Values) })
	for _, a := range axes {
		c := s.Space.Config(at)
		line := []int{at}
		for _, v := range a.Values {
			if i, ok := s.Space.Index(c.With(a.Name, v)); ok && s.Fresh(i) {
				line = append(line, i)
			}
		}
		if len(line) == 1 {
			continue
		}
		if err := s.Measure(ctx, record.StageAxis, line, ScreenRounds); err != nil {
			return at, err
		}
		if best := s.Ranked(slices.DeleteFunc(line, s.Fresh)); len(best) > 0 {
			at = best[0]
		}
	}
	return at, nil
}
