package cuda

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// A dispatch whose senders store their own rows gives the oracle's bytes, in a fixed
// order, and partial sums give the oracle's bits in their own order. TestFastKernelsRace
// has the same kernels with FP8, scales by tiles, blocks that only wait, and BF16 sums.
func TestFinalHomeAndPartialEmulated(t *testing.T) {
	oncePerRun(t)
	q := fastCase{pairProblem(ep.BF16, 2, 264, 32, 6, 6), []int{6, 2}, 0, 0.3,
		"sms=2,wait_sms=0,threads=64", "sms=2,wait_sms=0,threads=64", 10}
	q.drill(q.prepare(t, dispatchFinalHome(), combineFinalPartial()))
}
