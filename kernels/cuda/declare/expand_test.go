package declare

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestEmulatedExpand: rows by rank become the oracle's rows by expert. Each expert's rows begin
// at a multiple of 128, and there are more rows than a block places at a time.
func TestEmulatedExpand(t *testing.T) {
	q := fastCase{pairProblem(ep.BF16, 3, 264, 12, 3, 60), []int{60, 0, 47}, 0.5, 0.2, "sms=3,wait_sms=1,threads=96", "sms=2,threads=64,algo=dedup", 3}
	q.p.Layout = ep.LayoutExpert128
	q.drill(q.prepare(t, dispatchExpand(), combineExpand()))
}

// TestExpandRace runs the same kernels in layout expert: every plain access is ordered by a
// fence, a barrier or a kernel's end.
func TestExpandRace(t *testing.T) {
	q := fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=3,threads=64", "sms=2,threads=64,algo=dedup", 3}
	e := q.prepare(t, dispatchExpand(), combineExpand())
	e.tools = need(t, raceTools)
	q.drill(e)
}
