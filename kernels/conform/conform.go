// Package conform compares a backend with reference results over a matrix of problems and routings.
package conform

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// Level selects how much of the matrix runs.
type Level string

// Quick covers every value of each axis. Default covers every pair of values of two axes, and Stress covers every triple
// of values of three axes.
const (
	Quick   Level = "quick"
	Default Level = "default"
	Stress  Level = "stress"
)

type effort struct {
	strength   int // see covering
	iterations int // as in Case
	endurance  int // iterations of the cases with many calls and no reset
	words      int // as in Case
	configs    int // as in Case
}

func (l Level) effort() effort {
	switch l {
	case Quick:
		return effort{strength: 1, iterations: 5, endurance: 50, words: 8}
	case Stress:
		return effort{strength: 3, iterations: 20, endurance: 1000, words: 32, configs: 5}
	}
	return effort{strength: 2, iterations: 10, endurance: 1000, words: 8}
}

// Case is one problem and routing, run with several configs.
type Case struct {
	Name       string
	Tags       []string // axis=value
	Problem    ep.Problem
	Routing    string
	Seed       uint64
	Iterations int // calls between two verifications
	Words      int // at most so many combinations of non-numeric values, such as algo=direct own=slot
	Configs    int // largest number of configs of a kernel, 0 for no limit
}

// Trial is the result of one config of a case.
type Trial struct {
	Config   ep.Config
	Status   ep.Status
	Compared kernels.Comparison
	Reason   string
}

// Result holds a case's trials, or the reason why the case was skipped.
type Result struct {
	Case    Case
	Skipped string
	Trials  []Trial
}

// Failed returns the trials that are not OK.
func (r Result) Failed() []Trial {
	var out []Trial
	for _, o := range r.Trials {
		if o.Status != ep.OK {
			out = append(out, o)
		}
	}
	return out
}

// Matrix returns the cases of a level. Every call returns the same cases.
func Matrix(l Level, a Axes, mode ep.Mode) []Case {
	e := l.effort()
	base := ep.Problem{Mode: mode, Nodes: max(a.Nodes, 1), MaxTokens: a.Capacity, Combine: ep.BF16}
	axes := a.list()
	sizes := make([]int, len(axes))
	for i, x := range axes {
		sizes[i] = len(x.values)
	}
	points := covering(sizes, e.strength, func(p []int) bool { return feasible(build(axes, p, base)) })
	var out []Case
	for _, p := range points {
		c := build(axes, p, base)
		c.Iterations, c.Words, c.Configs = e.iterations, e.words, e.configs
		out = append(out, c)
	}
	return append(out, specialCases(e, a, base)...)
}

const (
	tagEmpty     = "special=no-tokens"
	tagEndurance = "special=back-to-back"
)

func mediumProblem(op ep.Op, a Axes, base ep.Problem) ep.Problem {
	p := base
	p.Op, p.Dispatch, p.Ranks = op, ep.BF16, a.Ranks[min(2, len(a.Ranks)-1)]
	p.Experts, p.TopK, p.Hidden, p.Tokens = 4*p.Ranks, 4, 256, base.MaxTokens
	return p
}

// specialCases returns cases without tokens, and cases of many calls without a reset.
func specialCases(e effort, a Axes, base ep.Problem) []Case {
	var empty, endurance []Case
	for _, op := range a.Ops {
		for _, layout := range a.Layouts {
			c := Case{Problem: mediumProblem(op, a, base), Routing: "uniform", Seed: 1}
			if c.Problem.Layout = layout; c.Problem.Validate() != nil {
				continue
			}
			of := []string{"op=" + string(op), "layout=" + layout.String()}
			c.Name, c.Tags = fmt.Sprintf("%s, layout %s, %d calls back to back", op, layout, e.endurance), append([]string{tagEndurance}, of...)
			c.Iterations, c.Words = e.endurance, 4
			endurance = append(endurance, c)
			c.Name, c.Tags = fmt.Sprintf("no tokens, %s, layout %s", op, layout), append([]string{tagEmpty}, of...)
			c.Iterations, c.Words, c.Problem.Tokens = e.iterations, e.words, 0
			empty = append(empty, c)
		}
	}
	return append(empty, endurance...)
}
