package workloads

import (
	"fmt"

	"github.com/epbench/epbench/tune/ep"
)

// Distribution decides which experts tokens visit.
type Distribution interface {
	// Spec is the canonical spelling, which Parse reads back.
	Spec() string
	// Route draws the routing of every rank. It is deterministic in seed.
	Route(p ep.Problem, seed uint64) ([]Routing, error)
}

// New draws a workload. The error names the field of p, or the argument of d,
// that does not fit the other.
func New(d Distribution, p ep.Problem, seed uint64) (*Workload, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("routing %s: %w", d.Spec(), err)
	}
	ranks, err := d.Route(p, seed)
	if err != nil {
		return nil, fmt.Errorf("routing %s: %w", d.Spec(), err)
	}
	return &Workload{Problem: p, Spec: d.Spec(), Seed: seed, Ranks: ranks}, nil
}
