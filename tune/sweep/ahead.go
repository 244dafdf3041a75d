package sweep

import (
	"slices"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
)

// announce tells a backend that compiles what the whole sweep may need: for
// all shapes first what every search begins with, then the rest. To announce
// when the first search of a shape begins was tried: short sweeps then waited
// a quarter of their time for the compiler.
func (s *sweeper) announce() error {
	b, ok := s.lab.backend.(kernels.Forewarned)
	if !ok {
		return nil
	}
	pl, shapes := s.lab.planner, s.shapes()
	for _, p := range shapes {
		b.Ahead(p, pl.begins(p))
	}
	for _, p := range shapes {
		space, _, err := pl.base(p)
		if err != nil {
			return err
		}
		b.Ahead(p, compiled(kernels.Of(pl.kernels, p.Op), space))
	}
	return nil
}

// shapes are the problems of a sweep that differ in more than token counts.
// Pairs are made of the others' kernels.
func (s *sweeper) shapes() []ep.Problem {
	var out []ep.Problem
	for _, c := range s.searches {
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

// announcedPoints bounds the points looked at for what to announce. Larger
// spaces are looked at in steps.
const announcedPoints = 20_000

// compiled lists one config of a space for each combination of compiled-in
// values.
func compiled(known []kernels.Kernel, space *search.Space) []ep.Config {
	var out []ep.Config
	seen := map[string]bool{}
	for i := 0; i < space.Len(); i += 1 + space.Len()/announcedPoints {
		c := space.Config(i)
		key := []string{c.Kernel}
		for _, k := range known {
			for _, q := range k.Params {
				if k.Name == c.Kernel && q.Binding == kernels.Compile {
					key = append(key, string(c.Values[q.Name]))
				}
			}
		}
		if binary := strings.Join(key, " "); !seen[binary] {
			seen[binary] = true
			out = append(out, c)
		}
	}
	return out
}
