package search

import "context"

// random measures random points alike, as many as the budget admits: what a
// cleverer strategy must beat.
type random struct{}

// randomRounds is twice what a race gives a point in its first heat, and half
// of what a grid does.
const randomRounds = 5

func (random) Search(ctx context.Context, s *State) error {
	_, err := screen(ctx, s, randomRounds)
	return err
}
