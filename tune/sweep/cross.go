package sweep

import (
	"context"
	"math"
	"slices"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
)

// crossAll measures the winners of all routings of a problem under each of
// them, so that regret is measured and not guessed. Once ctx is cancelled it
// measures nothing, and groups that lack something have no regret.
func (s *sweeper) crossAll(ctx context.Context) ([]reports.Regret, error) {
	var out []reports.Regret
	for _, group := range s.groups() {
		group = slices.DeleteFunc(group, func(c *cell) bool { return c.outcome.Verdict == record.Failed })
		if len(group) < 2 {
			continue
		}
		shipped := winners(group)
		for _, c := range group {
			if err := s.cross(ctx, c, shipped); err != nil {
				return nil, err
			}
		}
		if crossed(group) {
			if err := s.compromise(ctx, group); err != nil {
				return nil, err
			}
		}
		if crossed(group) {
			out = append(out, s.regret(group))
		}
	}
	return out, nil
}

// crossed reports whether each choice of a group was measured, or failed, under
// every routing.
func crossed(group []*cell) bool {
	for _, c := range group {
		if c.uncrossed {
			return false
		}
	}
	return true
}

// winners are the configs chosen in a group, the default first, each once.
func winners(group []*cell) []ep.Config {
	out := []ep.Config{group[0].outcome.Default}
	for _, c := range group {
		if !slices.ContainsFunc(out, func(o ep.Config) bool { return o.Key() == c.outcome.Config.Key() }) {
			out = append(out, c.outcome.Config)
		}
	}
	return out
}

// cross measures in a cell what of configs it has not measured, and compares those with
// the oracle again after that: a row may come to say any of them.
func (s *sweeper) cross(ctx context.Context, c *cell, configs []ep.Config) error {
	var live, missing []int
	for _, cfg := range configs {
		point := c.space.Add(cfg)
		if live = append(live, point); c.lacks(cfg) {
			missing = append(missing, point)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if c.uncrossed = ctx.Err() != nil; c.uncrossed {
		return nil
	}
	before := c.runner.Spent()
	fs, err := s.crossBlock(ctx, c, live, missing)
	s.before += c.runner.Spent() - before
	if closed := c.runner.Close(); err == nil {
		err = closed
	}
	if c.uncrossed = err != nil && ctx.Err() != nil; c.uncrossed {
		return nil
	}
	if err != nil {
		return err
	}
	for key, e := range known(fs, c) {
		c.effects[key] = e
	}
	return nil
}

// lacks reports whether nothing is known of a config in a cell.
func (c *cell) lacks(cfg ep.Config) bool {
	_, ok := c.effects[cfg.Key()]
	return !ok
}

// crossBlock times configs beside each other and drops those of the new ones whose answers
// are wrong afterwards.
func (s *sweeper) crossBlock(ctx context.Context, c *cell, live, missing []int) ([]search.Finalist, error) {
	fs, err := c.hunt.Settle(ctx, s.confirmation(c), crossStage, live)
	if s.reopened(c, err) {
		fs, err = c.hunt.Settle(ctx, s.confirmation(c), crossStage, live)
	}
	if err != nil {
		return nil, err
	}
	right, err := c.runner.Recheck(ctx, recheckStage, missing)
	return slices.DeleteFunc(fs, func(f search.Finalist) bool { return slices.Contains(missing, f.Point) && !right[f.Point] }), err
}

// loss is what a config loses in a cell against the best measured there, as a
// ratio minus one; +Inf when it failed or was not measured.
func (c *cell) loss(cfg ep.Config) float64 {
	least := math.Inf(1)
	for _, e := range c.effects {
		least = min(least, e.log)
	}
	e, ok := c.effects[cfg.Key()]
	if !ok {
		return math.Inf(1)
	}
	return math.Expm1(e.log - least)
}

// regret is the matrix of a group: each routing's choice under each routing.
func (s *sweeper) regret(group []*cell) reports.Regret {
	r := reports.Regret{Problem: group[0].problem, Minimax: len(group)}
	add := func(label string, cfg ep.Config) {
		var row []float64
		for _, c := range group {
			row = append(row, c.loss(cfg))
		}
		r.Shipped, r.Keys, r.Loss = append(r.Shipped, label), append(r.Keys, cfg.Key()), append(r.Loss, row)
	}
	for _, c := range group {
		r.Routings = append(r.Routings, c.dist.Spec())
		add(c.dist.Spec(), c.outcome.Config)
	}
	cfg, _ := s.minimax(group, ep.Config{})
	add(string(ep.AllRoutings), cfg)
	return r
}

// minimax is the config with the least worst loss over the cells of a group,
// and that loss. Within the band the default stays, then the neighbour's
// choice, then what takes fewer SMs.
func (s *sweeper) minimax(group []*cell, neighbour ep.Config) (best ep.Config, loss float64) {
	configs := winners(group)
	if c := group[0].compromise; c.Kernel != "" {
		configs = append(configs, c)
	}
	worst := make([]float64, len(configs))
	for i, cfg := range configs {
		for _, c := range group {
			worst[i] = max(worst[i], c.loss(cfg))
		}
	}
	least := slices.Min(worst)
	order := func(cfg ep.Config) []int {
		i, _ := group[0].space.Index(cfg)
		cost := group[0].space.Cost(i)
		return append([]int{rankOf(cfg, group[0].outcome.Default, neighbour)}, cost[:]...)
	}
	at := -1
	for i, cfg := range configs {
		tied := 1+worst[i] <= (1+least)*(1+s.policy.Band)
		if tied && (at < 0 || slices.Compare(order(cfg), order(configs[at])) < 0) {
			at = i
		}
	}
	if at < 0 { // every config failed somewhere
		return configs[0], math.Inf(1)
	}
	return configs[at], worst[at]
}

func rankOf(cfg, dflt, neighbour ep.Config) int {
	switch cfg.Key() {
	case dflt.Key():
		return 0
	case neighbour.Key():
		return 1
	}
	return 2
}
