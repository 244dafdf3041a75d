package workloads

import (
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// classSelections per expert, on average, are enough to tell the routing
// classes apart.
const classSelections = 64

// class names the routing class of the distribution that w was drawn from. Tables
// are keyed by it, and a runtime adds up its counts over many steps before it
// asks for a class. The few tokens of one draw cannot tell it, so class adds up
// steps of the size of b, drawn at once, with the same experts popular in all.
func (r *recipe) class(w *Workload, b *batch, f filler) ep.Class {
	long := *b
	if b.rows() == 0 { // a step without tokens tells nothing; take the smallest with some
		long.size = slices.Repeat([]int{1}, len(b.size))
	}
	steps := long.steps()
	if steps == 1 {
		return ep.Classify(w.TotalCounts(), w.Problem.Ranks)
	}
	long.size = slices.Clone(long.size)
	for i := range long.size {
		long.size[i] *= steps
	}
	sum := Workload{Problem: w.Problem, Ranks: r.route(&long, f)}
	return ep.Classify(sum.TotalCounts(), w.Problem.Ranks)
}

// rows is the tokens of all ranks.
func (s drawRequest) rows() int {
	n := 0
	for _, tokens := range s.size {
		n += tokens
	}
	return n
}

// steps is how many steps give classSelections an expert.
func (s drawRequest) steps() int {
	return (classSelections*s.Experts-1)/(max(s.rows(), 1)*s.TopK) + 1
}
