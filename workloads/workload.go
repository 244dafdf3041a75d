// Package workloads draws routings: which experts each token of each rank
// selects, and with which weights. It measures how uneven a routing is and how
// many bytes it sends. It also holds the shapes of known models.
//
// Parse reads the spelling of a routing, such as zipf:1.0. New draws it for a
// problem. The same spelling, problem and seed give the same bytes on every
// machine.
package workloads

import "github.com/epbench/epbench/tune/ep"

// Routing holds the selections of one rank's tokens.
type Routing struct {
	Tokens  int       // rows
	Experts []int32   // [Tokens, TopK] distinct global expert ids, -1 if masked
	Weights []float32 // [Tokens, TopK] router weights, 0 if masked
}

// Workload is a problem with the routing of every rank. It is immutable and safe to share.
type Workload struct {
	Problem ep.Problem
	Spec    string    // canonical routing spec, see Parse
	Seed    uint64    // the same seed gives the same bytes on any machine
	Ranks   []Routing // [ranks]
	Class   ep.Class  // empty unless New made the workload
}

// BatchRank returns the rank whose tokens a rank works on: the rank itself, or 0 with SkipA2A,
// because every rank then has the same tokens.
func (w *Workload) BatchRank(rank int) int {
	if w.Problem.SkipA2A {
		return 0
	}
	return rank
}

// SharedSlice returns which tokens a rank sends through the shared expert: the first token and
// their number. With SkipA2A each rank takes a part of the tokens, otherwise all its own.
func (w *Workload) SharedSlice(rank int) (start, count int) {
	n := w.Ranks[w.BatchRank(rank)].Tokens
	if !w.Problem.SkipA2A {
		return 0, n
	}
	a := w.Problem.Ranks
	return rank*(n/a) + min(rank, n%a), (n + a - rank - 1) / a
}
