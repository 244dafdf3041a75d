package sweep

import (
	"context"
	"math"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

// compromise is measured in all cells of a group where, by what their searches saw, it
// loses less at worst than any cell's own choice does: what is best nowhere may be the
// best for a caller who knows nothing of the routing.
func (s *sweeper) compromise(ctx context.Context, group []*cell) error {
	var losses []map[string]float64
	for _, c := range group {
		losses = append(losses, c.searched())
	}
	key, guess, ok := reports.LeastWorst(losses)
	if _, worst := s.minimax(group, ep.Config{}); !ok || (1+guess)*(1+s.policy.Band) >= 1+worst {
		return nil
	}
	cfg, err := ep.ParseConfig(key)
	if err != nil {
		return err
	}
	for _, c := range group {
		if err := s.cross(ctx, c, []ep.Config{c.outcome.Default, cfg}); err != nil {
			return err
		}
		c.compromise = cfg
	}
	return nil
}

// searched is what each config that the search of a cell measured loses against the best
// of them, by config key.
func (c *cell) searched() map[string]float64 {
	out, least := map[string]float64{}, math.Inf(1)
	for _, i := range c.hunt.Measured() {
		least = min(least, c.hunt.Score(i))
	}
	for _, i := range c.hunt.Measured() {
		if score := c.hunt.Score(i); !math.IsInf(score, 1) {
			out[c.space.Config(i).Key()] = math.Expm1(score - least)
		}
	}
	return out
}
