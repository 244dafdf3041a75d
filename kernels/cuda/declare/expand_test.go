package declare

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestEmulatedExpand: dispatch_expand gives the oracle's rows, sorted by expert. Each expert's rows begin at a
// multiple of 128, and there are more rows than a block places at a time.
func TestEmulatedExpand(t *testing.T) {
	q := fastCase{pairProblem(ep.BF16, 3, 264, 12, 3, 60), []int{60, 0, 47}, 0.5, 0.2, "sms=3,wait_sms=1,threads=96", "sms=2,threads=64,algo=dedup", 3}
	q.p.Layout = ep.LayoutExpert128
	q.checkCalls(q.prepare(t, dispatchExpand(), combineExpand()))
}

// TestExpandRace: in the same kernels any two conflicting accesses are ordered by a fence, a barrier or the end
// of a kernel. It uses layout expert, which needs less memory.
func TestExpandRace(t *testing.T) {
	q := fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=3,threads=64", "sms=2,threads=64,algo=dedup", 3}
	e := q.prepare(t, dispatchExpand(), combineExpand())
	e.tools = need(t, raceTools)
	q.checkCalls(e)
}
