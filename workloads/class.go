package workloads

import (
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

const classSelections = 64

// class returns the routing class of the distribution of w. A small batch does not show the class,
// so `class` draws at least classSelections selections per expert.
func (r *recipe) class(w *Workload, b *batch, f filler) ep.Class {
	long := *b
	if b.rows() == 0 {
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

func (s drawRequest) rows() int {
	n := 0
	for _, tokens := range s.size {
		n += tokens
	}
	return n
}

func (s drawRequest) steps() int {
	return (classSelections*s.Experts-1)/(max(s.rows(), 1)*s.TopK) + 1
}
