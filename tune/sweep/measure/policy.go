// Package measure times candidates on a backend and compares their answers with the oracle. Its Runner writes the
// trial log.
package measure

import (
	"fmt"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
)

// A Policy says how a run measures. Measurements under two policies cannot be compared.
type Policy struct {
	search.Protocol
	MinSample float64 // seconds; calls repeat until a sample is this long
	MaxFold   int     // most calls in a sample
	AAShare   float64 // largest share of a search's time for the A/A test (the default against itself)
	Sessions  int     // further sessions, after the search
}

// PolicyFor returns the policy of a machine.
func PolicyFor(m ep.Machine) Policy {
	if m.GPUs == 0 {
		return Policy{search.OnHost(), 200e-6, 1000, 0.3, 0}
	}
	return Policy{search.OnGPU(), 50e-6, 100, 0.3, 3}
}

// Coarser returns the policy with at least this band.
func (p Policy) Coarser(band float64) Policy {
	p.Band = max(p.Band, band)
	return p
}

// String returns the canonical spelling.
func (p Policy) String() string {
	text := fmt.Sprintf("max over ranks, median over rounds, interleaved; band=%g sample>=%gs fold<=%d aa=%d..%d finals=%d rounds=%d..%d confirm=%d interval=95%%",
		p.Band, p.MinSample, p.MaxFold, p.AARounds, p.MaxAA, p.Finalists, p.MinRounds, p.MaxRounds, p.ConfirmRounds)
	if p.Sessions > 0 {
		text += fmt.Sprintf(" sessions=%d", p.Sessions)
	}
	return text
}
