// Package measure turns candidates into verified, timed results: it joins the
// kernels' sessions with the searches of package tune and the trial log.
package measure

import (
	"fmt"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
)

// Policy is how a run measures. It is part of what a table says about itself:
// numbers of two policies are not compared.
type Policy struct {
	Band      float64 // relative difference in time that does not matter; what a machine's A/A spread may reach
	MinSample float64 // seconds that one sample lasts at least, by folding calls
	MaxFold   int     // calls in one sample, at most
	AARounds  int     // of the default against itself, before a look at the spread
	MaxAA     int     // rounds of it after which a noisy machine is refused
	AAShare   float64 // of a search's time after which A/A ends too
	Confirm   search.Confirmation
}

// onGPU is the policy of machines with GPUs.
var onGPU = Policy{Band: 0.01, MinSample: 50e-6, MaxFold: 100, AARounds: 20, MaxAA: 200,
	Confirm: search.Confirmation{Finalists: 24, MinRounds: 10, MaxRounds: 50}}

// onHost is the policy of machines without, external workers included. A CPU
// that others use too cannot tell 1 % apart in a minute, and should not
// pretend to: its band is ten times as wide, and its tables say so. Its
// samples are short against a time slice of the scheduler: then most of them
// run undisturbed and the median does not see the rest.
var onHost = Policy{Band: 0.10, MinSample: 200e-6, MaxFold: 1000, AARounds: 40, MaxAA: 400,
	Confirm: search.Confirmation{Finalists: 8, MinRounds: 10, MaxRounds: 50}}

// PolicyFor is the policy of a machine.
func PolicyFor(m ep.Machine) Policy {
	p := onGPU
	if m.GPUs == 0 {
		p = onHost
	}
	p.Confirm.Band = p.Band
	p.AAShare = 0.3
	return p
}

// String is the canonical spelling.
func (p Policy) String() string {
	return fmt.Sprintf("max over ranks, median over rounds, interleaved; band=%g sample>=%gs fold<=%d aa=%d..%d finals=%d confirm=%d..%d interval=95%%",
		p.Band, p.MinSample, p.MaxFold, p.AARounds, p.MaxAA, p.Confirm.Finalists, p.Confirm.MinRounds, p.Confirm.MaxRounds)
}
