package sweep

import (
	"context"
	"math"

	"github.com/epbench/epbench/tune/plan"
)

// compromise is measured in all cells of a group where, by what their searches saw, it
// loses less at worst than any cell's own choice does: what is best nowhere may be the
// best for a caller who knows nothing of the routing.
func (s *sweeper) compromise(ctx context.Context, group []*cell) error {
	cfg, guess := leastWorst(group)
	if _, worst := s.minimax(group, plan.Config{}); (1+guess)*(1+s.policy.Band) >= 1+worst {
		return nil
	}
	for _, c := range group {
		if err := s.cross(ctx, c, []plan.Config{c.outcome.Default, cfg}); err != nil {
			return err
		}
		c.compromise = cfg
	}
	return nil
}

// leastWorst is the config with the least worst loss over the searches of a group among
// those that all of them measured, by their scores; the loss is +Inf without one.
func leastWorst(group []*cell) (best plan.Config, least float64) {
	worst, seen := map[string]float64{}, map[string]int{}
	for _, c := range group {
		for key, loss := range c.searched() {
			worst[key] = max(worst[key], loss)
			seen[key]++
		}
	}
	least = math.Inf(1)
	for _, i := range group[0].hunt.Measured() { // in one order in every run
		cfg := group[0].space.Config(i)
		if key := cfg.Key(); seen[key] == len(group) && worst[key] < least {
			best, least = cfg, worst[key]
		}
	}
	return best, least
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
