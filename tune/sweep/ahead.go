package sweep

import (
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/sweep/measure"
)

// foretell tells a backend that compiles what the whole sweep may need: of all
// shapes first what every search begins with, then the rest. Told when the
// first search of a shape began, it took a quarter of short sweeps to wait for.
func (s *sweeper) foretell() error {
	b, ok := s.backend.(kernels.Forewarned)
	if !ok {
		return nil
	}
	shapes := s.shapes()
	for _, p := range shapes {
		b.Ahead(p, s.planner.begins(p))
	}
	for _, p := range shapes {
		space, _, err := s.planner.base(p)
		if err != nil {
			return err
		}
		b.Ahead(p, measure.Compiled(s.planner.kernels, p.Op, space))
	}
	return nil
}

// shapes are the problems of a sweep that differ in more than token counts.
// Pairs are made of the others' kernels.
func (s *sweeper) shapes() []ep.Problem {
	var out []ep.Problem
	for _, c := range s.cells {
		same := func(p ep.Problem) bool {
			p.Tokens, p.MaxTokens = c.problem.Tokens, c.problem.MaxTokens
			return p == c.problem
		}
		if c.problem.Op != ep.Pair && !slices.ContainsFunc(out, same) {
			out = append(out, c.problem)
		}
	}
	return out
}

// begins lists what every search of a problem measures, the default first.
func (pl *planner) begins(p ep.Problem) []ep.Config {
	var out []ep.Config
	for _, k := range kernels.Of(pl.kernels, p.Op) {
		out = append(out, pl.starts(k, p)...)
	}
	return out
}
