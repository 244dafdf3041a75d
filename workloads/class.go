package workloads

import (
	"github.com/epbench/epbench/tune/ep"
)

// classSelections per expert are enough to tell the classes apart.
const classSelections = 64

// ClassOf is the class of a routing, not of the few tokens of one draw: a
// runtime classifies what it has counted over many steps. Where the routing
// cannot be drawn longer, as from a trace, the draw itself has to do;
// AnyRouting means that it does not fit the problem.
func ClassOf(d Distribution, p ep.Problem, seed uint64) ep.Class {
	long := p
	long.Tokens = min(ep.MaxTokens, max(p.Tokens, classSelections*p.Experts/(p.Ranks*p.TopK)+1))
	long.MaxTokens = long.Tokens
	w, err := New(d, long, seed)
	if err != nil {
		if w, err = New(d, p, seed); err != nil {
			return ep.AllRoutings
		}
	}
	return ep.Classify(w.TotalCounts(), p.Ranks)
}
