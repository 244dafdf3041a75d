// Package workloads draws routings. A routing says which experts each token of each rank (GPU)
// selects, and with which weights. The package also computes how uneven a routing is and how many
// bytes it sends, and holds the shapes of known models.
//
// Parse reads the name of a distribution of routings, such as zipf:1.0. New draws a routing for a
// problem. The same name, problem and seed give the same bytes on every machine.
package workloads

import "github.com/epbench/epbench/tune/ep"

// Routing says which experts the tokens of one rank select. A masked selection counts as no
// selection.
type Routing struct {
	Tokens  int
	Experts []int32   // [Tokens, TopK] distinct ids; -1 if masked
	Weights []float32 // [Tokens, TopK] router weights; 0 if masked
}

// Workload is a problem with a routing for every rank. Goroutines can share a workload, because it
// never changes.
type Workload struct {
	Problem ep.Problem
	Spec    string // the distribution, as Parse reads it
	Seed    uint64
	Ranks   []Routing // [ranks]
	Class   ep.Class  // set by New
}

// BatchRank returns the index of a rank's routing in Ranks. With Problem.SkipA2A, all ranks have the same tokens, and
// the index is 0. Otherwise the index is the rank.
func (w *Workload) BatchRank(rank int) int {
	if w.Problem.SkipA2A {
		return 0
	}
	return rank
}

// SharedSlice returns the tokens for which a rank computes the shared expert: the index of the first token and the
// number of tokens. Without Problem.SkipA2A, a rank takes all its tokens. With it, all ranks have the same tokens, and
// each rank takes a part of them.
func (w *Workload) SharedSlice(rank int) (start, count int) {
	n := w.Ranks[w.BatchRank(rank)].Tokens
	if !w.Problem.SkipA2A {
		return 0, n
	}
	a := w.Problem.Ranks
	return rank*(n/a) + min(rank, n%a), (n + a - rank - 1) / a
}
