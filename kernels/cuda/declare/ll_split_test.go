package declare

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestLowLatencySplitEmulated: dispatch_ll_split and combine_ll_split give the oracle's bytes in a fixed order, also
// if sending and receiving grids have different sizes. A pair of a split and a fused kernel does too.
func TestLowLatencySplitEmulated(t *testing.T) {
	for _, q := range []fastCase{
		{pairProblem(ep.FP8, 4, 512, 64, 8, 4), []int{1, 0, 4, 3}, 0.7, 0, "sms=3,recv_sms=2,threads=128,part=512", "sms=1,recv_sms=3,threads=128,algo=dedup", 30},
		{pairProblem(ep.BF16, 8, 264, 32, 6, 6), []int{6, 2, 5}, 0, 0.3, "sms=2,recv_sms=2,threads=128,part=1024,send=1024", "sms=2,recv_sms=1,threads=64", 10},
		{pairProblem(ep.BF16, 2, 512, 80, 3, 7), []int{7, 3}, 0.5, 0, "sms=1,recv_sms=2,threads=64", "sms=1,recv_sms=1,threads=96,algo=dedup", 20},
	} {
		t.Run(q.name(), func(t *testing.T) {
			t.Parallel()
			q.checkCalls(q.prepare(t, dispatchLLSplit(), combineLLSplit()))
		})
	}
	mixed := fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 2}, 0, 0, "sms=2,recv_sms=1,threads=64", "sms=2,threads=64", 10}
	t.Run("mixed", func(t *testing.T) { mixed.checkCalls(mixed.prepare(t, dispatchLLSplit(), combineLL())) })
}

// TestSplitReceiverIsBounded: a receiving grid that cannot be resident is refused with its parameter's name.
func TestSplitReceiverIsBounded(t *testing.T) {
	p := pairProblem(ep.FP8, 8, 512, 64, 8, 4)
	for _, f := range []Declaration{dispatchLLSplit(), combineLLSplit()} {
		p.Op = f.Kernel.Op
		c := f.Kernel.DefaultConfig(onCPU(), p)
		if err := f.Check(onCPU(), p, c); err != nil {
			t.Errorf("the default: %v", err)
		}
		for _, n := range []ep.Value{"0", "133"} {
			if err := f.Check(onCPU(), p, c.With("recv_sms", n)); err == nil || !strings.Contains(err.Error(), "recv_sms") {
				t.Errorf("recv_sms=%s: %v", n, err)
			}
		}
		if l := f.Launches(p, c.With("pdl", "1").With("recv_sms", "7")); len(l) != 2 || l[0].Grid != 132 || l[1].Grid != 7 || l[1].Params.SMs != 7 || l[1].PDL {
			t.Errorf("launches %+v", l)
		}
	}
}
