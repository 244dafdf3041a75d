package search

import "context"

// grid measures every point in as many rounds: what the other strategies are
// compared with, and the right choice for a small space with time to spare.
type grid struct{}

const gridRounds = 10

func (grid) Search(ctx context.Context, s *State) error {
	_, err := screen(ctx, s, gridRounds)
	return err
}
