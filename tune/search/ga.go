package search

import (
	"context"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// ga breeds: two parents from tournaments, each parameter from either, one in
// eight changed at random. Children outside the space are replaced by fresh
// random points, so that the budget is spent.
type ga struct{}

const (
	herd       = 16 // members of a generation, children of the next
	tournament = 3
	mutation   = 0.125
)

func (ga) Search(ctx context.Context, h *Hunt) error {
	first := h.Shuffled()
	live := append(slices.Clone(h.Required), first[:min(herd, len(first))]...)
	if err := h.Measure(ctx, record.StageGeneration, live, ScreenRounds); err != nil {
		return err
	}
	for h.Left() > 0 {
		parents := h.Keep(h.Measured(), herd)
		children := breed(h, parents)
		if len(children) == 0 {
			return nil
		}
		// The best two link this generation's rounds to the last one's.
		if err := h.Measure(ctx, record.StageGeneration, append(children, parents[:min(2, len(parents))]...), ScreenRounds); err != nil {
			return err
		}
	}
	return nil
}

// breed makes fresh children of parents that are ranked best first.
func breed(h *Hunt, parents []int) []int {
	var out []int
	rest := h.Shuffled()
	for range herd {
		child, ok := h.Space.Index(cross(h, pick(h, parents), pick(h, parents)))
		for !ok || !h.Fresh(child) || slices.Contains(out, child) {
			if len(rest) == 0 {
				return out
			}
			child, ok, rest = rest[0], true, rest[1:]
		}
		out = append(out, child)
	}
	return out
}

// pick is the winner of a tournament.
func pick(h *Hunt, ranked []int) ep.Config {
	best := len(ranked)
	for range tournament {
		best = min(best, h.Rand.IntN(len(ranked)))
	}
	return h.Space.Config(ranked[best])
}

func cross(h *Hunt, a, b ep.Config) ep.Config {
	child := a
	for _, axis := range h.Space.axes(a.Kernel) {
		if b.Kernel == a.Kernel && h.Rand.IntN(2) == 0 {
			child = child.With(axis.Name, b.Values[axis.Name])
		}
		if h.Rand.Float64() < mutation {
			child = child.With(axis.Name, axis.Values[h.Rand.IntN(len(axis.Values))])
		}
	}
	return child
}
