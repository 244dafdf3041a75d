// Package workloads makes routings: which experts each token of each rank
// visits, with what weight, and what that means for the wire.
package workloads

import (
	"github.com/epbench/epbench/tune/ep"
)

// Routing is what the router of one rank decided.
type Routing struct {
	Tokens  int       // rows
	Experts []int32   // [Tokens, TopK] distinct global expert ids, -1 where masked
	Weights []float32 // [Tokens, TopK] router weights, 0 where masked
}

// Workload is a problem together with the routing of every rank. It is
// immutable and safe to share.
type Workload struct {
	Problem ep.Problem
	Spec    string    // canonical routing spec, see Parse
	Seed    uint64    // the same seed gives the same bytes on any machine
	Ranks   []Routing // one a rank
	Class   ep.Class  // what tables key it by; empty unless New made it
}

// Batch says whose tokens a rank feeds in: its own, or under skip_a2a those
// of rank 0, which every rank holds a copy of.
func (w *Workload) Batch(rank int) int {
	if w.Problem.SkipA2A {
		return 0
	}
	return rank
}

// SharedSlice is the range of its batch for which a rank runs the shared
// expert: everything, or under skip_a2a its part of the replicated batch.
func (w *Workload) SharedSlice(rank int) (start, count int) {
	n := w.Ranks[w.Batch(rank)].Tokens
	if !w.Problem.SkipA2A {
		return 0, n
	}
	a := w.Problem.Ranks
	return rank*(n/a) + min(rank, n%a), (n + a - rank - 1) / a
}
