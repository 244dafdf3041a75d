package workloads

import (
	"fmt"

	"github.com/epbench/epbench/tune/ep"
)

// Distribution decides which experts tokens select.
type Distribution struct{ *recipe }

// New draws a workload. The same arguments give the same bytes. An error names the field of p or
// the argument of d that does not fit.
func New(d Distribution, p ep.Problem, seed uint64) (*Workload, error) {
	err := p.Validate()
	w := &Workload{Problem: p, Spec: d.Spec(), Seed: seed}
	if err == nil {
		err = d.draw(w)
	}
	if err != nil {
		return nil, fmt.Errorf("routing %s: %w", ep.RoutingLabel(w.Spec), err)
	}
	return w, nil
}

// Draw parses a spec and draws a workload from it.
func Draw(spec string, p ep.Problem, seed uint64) (*Workload, error) {
	d, err := Parse(spec)
	if err != nil {
		return nil, err
	}
	return New(d, p, seed)
}
