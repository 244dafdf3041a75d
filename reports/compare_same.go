package reports

import (
	"slices"

	"github.com/epbench/epbench/tune/record"
)

// oneRecording is the reason of undecided cases if a run is compared with itself.
const oneRecording = "A and B are the same recording"

// isOneRecording reports whether A and B hold the same times in every case that both have. Two measurements never
// give the same times, so equal times mean that B is A or a copy of A.
func (c *Comparison) isOneRecording() bool {
	both := 0
	for _, x := range c.Cases {
		if x.A == nil || x.B == nil || len(x.A.Times) == 0 {
			continue
		}
		if !slices.Equal(x.A.Times, x.B.Times) {
			return false
		}
		both++
	}
	return both > 0
}

// markOneRecording adds a note if A and B are one recording, and makes this the reason of undecided cases. Otherwise
// their reason would advise more sessions, which cannot help.
func (c *Comparison) markOneRecording() {
	if c.same = c.isOneRecording(); !c.same {
		return
	}
	c.note(oneRecording + ": all measured times of A are also times of B, so the comparison says nothing about this machine; give two different runs")
	for i := range c.Cases {
		if x := &c.Cases[i]; x.Verdict == record.Undecided && x.A != nil && x.B != nil && len(x.A.Times) > 0 {
			x.Reason = oneRecording
		}
	}
}
