package cuda

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// A dispatch whose senders store their own rows gives the oracle's bytes, in a fixed
// order, and partial sums give the oracle's bits in their own order, for every rank count,
// dtype, routing and split of blocks.
func TestFinalHomeAndPartialEmulated(t *testing.T) {
	for _, q := range []fastCase{
		{pairProblem(ep.FP8, 4, 1152, 16, 4, 9), []int{9, 7, 0, 1}, 0.5, 0.2,
			"sms=3,wait_sms=1,threads=64,scales=tile", "sms=3,wait_sms=1,threads=64,partial=bf16", 5},
		{pairProblem(ep.BF16, 2, 264, 32, 6, 6), []int{6, 2}, 0, 0.3,
			"sms=2,wait_sms=0,threads=64", "sms=2,wait_sms=0,threads=64", 10},
	} {
		t.Run(q.name(), func(t *testing.T) {
			t.Parallel()
			q.drill(q.prepare(t, dispatchFinalHome(), combineFinalPartial()))
		})
	}
}
