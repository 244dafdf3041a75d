// Package workloads draws routings. A routing says which experts each token of
// each rank (GPU) selects, and with which weights. The package also computes
// how uneven a routing is and how many bytes it sends, and it holds the shapes
// of known models.
//
// Parse reads the name of a distribution of routings, such as zipf:1.0. New
// draws a routing from the distribution for a problem. The same name, problem
// and seed give the same bytes on every machine.
package workloads

import "github.com/epbench/epbench/tune/ep"

// Routing says which experts the tokens of one rank select. A token has TopK selections, some of
// which may be masked: they count as no selection.
type Routing struct {
	Tokens  int       // number of tokens
	Experts []int32   // [Tokens, TopK] expert ids, different ones for each token; -1 if the selection is masked
	Weights []float32 // [Tokens, TopK] router weights; 0 if the selection is masked
}

// Workload is a problem with a routing for every rank. Nothing changes a workload after it was made,
// so goroutines can share it.
type Workload struct {
	Problem ep.Problem
	Spec    string    // the distribution from which the routing was drawn, as Parse reads it
	Seed    uint64    // seed of the random draw
	Ranks   []Routing // [ranks]
	Class   ep.Class  // how uneven the routing is; empty unless New made the workload
}

// BatchRank returns the rank whose tokens the given rank works on. This is the rank itself. If
// Problem.SkipA2A is set, every rank has the same tokens, and BatchRank returns 0.
func (w *Workload) BatchRank(rank int) int {
	if w.Problem.SkipA2A {
		return 0
	}
	return rank
}

// SharedSlice returns the tokens for which a rank computes the shared expert, which every token
// selects: the index of the first token and the number of tokens. A rank takes all its own tokens.
// If Problem.SkipA2A is set, every rank has the same tokens, and each rank takes a part of them.
func (w *Workload) SharedSlice(rank int) (start, count int) {
	n := w.Ranks[w.BatchRank(rank)].Tokens
	if !w.Problem.SkipA2A {
		return 0, n
	}
	a := w.Problem.Ranks
	return rank*(n/a) + min(rank, n%a), (n + a - rank - 1) / a
}
