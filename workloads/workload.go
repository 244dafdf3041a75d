// Package workloads makes routings: which experts each token of each rank
// visits, with what weight, and what that means for the wire.
package workloads

import (
	"github.com/epbench/epbench/tune/plan"
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
	Problem plan.Problem
	Spec    string    // canonical routing spec, see Parse
	Seed    uint64    // the same seed gives the same bytes on any machine
	Ranks   []Routing // one a rank
}
