package search

import "context"

// grid measures everything alike: the yardstick for the others, and the right
// choice for a small space with time to spare.
type grid struct{}

// gridRounds is what others call ten repetitions.
const gridRounds = 10

func (grid) Search(ctx context.Context, s *State) error {
	_, err := screen(ctx, s, gridRounds)
	return err
}
