package measure

import "time"

// Profile is where the wall time of a sweep went.
type Profile struct {
	Open    time.Duration // sessions: buffers and inputs
	Prepare time.Duration // compiling and loading candidates
	Verify  time.Duration // inside kernels, and comparing with the oracle
	Run     time.Duration // inside measured kernels, warm-up included
}

// time adds what passes until the returned function is called.
func (p *Profile) time(slot *time.Duration) func() {
	start := time.Now()
	return func() { *slot += time.Since(start) }
}

// Kernels is the time inside measured or verifying kernels.
func (p *Profile) Kernels() time.Duration { return p.Run + p.Verify }
