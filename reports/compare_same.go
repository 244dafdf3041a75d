package reports

import (
	"slices"

	"github.com/epbench/epbench/tune/record"
)

const oneRecording = "A and B are the same recording"

// isOneRecording reports whether all common cases have equal times.
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
