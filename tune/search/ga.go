package search

import (
	"context"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// ga is a genetic search. A child takes each parameter from one of two parents,
// which are winners of tournaments; one parameter in eight is changed at random.
// A child outside the space is replaced by a fresh random point.
func ga(ctx context.Context, s *State) error {
	first := s.Shuffled()
	live := append(slices.Clone(s.Required), first[:min(herd, len(first))]...)
	if err := s.Measure(ctx, record.StageGeneration, live, ScreenRounds); err != nil {
		return err
	}
	for s.Left() > 0 {
		parents := s.Keep(s.Measured(), herd)
		children := breed(s, parents)
		if len(children) == 0 {
			return nil
		}
		// The best two link this generation's rounds to the last one's.
		if err := s.Measure(ctx, record.StageGeneration, append(children, parents[:min(2, len(parents))]...), ScreenRounds); err != nil {
			return err
		}
	}
	return nil
}

const (
	herd       = 16 // members of a generation, children of the next
	tournament = 3
	mutation   = 0.125
)

// breed makes fresh children of parents that are ranked best first.
func breed(s *State, parents []int) []int {
	var out []int
	rest := s.Shuffled()
	for range herd {
		child, ok := s.Space.Index(cross(s, pick(s, parents), pick(s, parents)))
		for !ok || !s.Fresh(child) || slices.Contains(out, child) {
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
func pick(s *State, ranked []int) ep.Config {
	best := len(ranked)
	for range tournament {
		best = min(best, s.Rand.IntN(len(ranked)))
	}
	return s.Space.Config(ranked[best])
}

func cross(s *State, a, b ep.Config) ep.Config {
	child := a
	for _, axis := range s.Space.axes(a.Kernel) {
		if b.Kernel == a.Kernel && s.Rand.IntN(2) == 0 {
			child = child.With(axis.Name, b.Values[axis.Name])
		}
		if s.Rand.Float64() < mutation {
			child = child.With(axis.Name, axis.Values[s.Rand.IntN(len(axis.Values))])
		}
	}
	return child
}
