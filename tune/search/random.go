package search

import "context"

// random measures random points, as many as the budget admits: what a cleverer
// strategy must beat.
type random struct{}

// randomRounds lies between the first heat of a race and a grid.
const randomRounds = 5

func (random) Search(ctx context.Context, s *State) error {
	_, err := screen(ctx, s, randomRounds)
	return err
}
