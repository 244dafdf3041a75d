package declare

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestEmulatedAligned: with layout expert:128 each expert's rows begin at a multiple of 128, and all outputs are right.
func TestEmulatedAligned(t *testing.T) {
	for _, q := range []struct {
		fastCase
		d, c Declaration
	}{
		{fastCase{pairProblem(ep.BF16, 3, 264, 12, 3, 60), []int{60, 0, 47}, 0.5, 0.2, "sms=3,threads=96,receivers=1", "sms=2,threads=64,algo=dedup", 3},
			dispatchLL(), combineLL()},
		{fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 70), []int{70, 3}, 0.9, 0, "sms=3,threads=64", "sms=2,threads=64", 3},
			dispatchLLIDs(), combineLLPartial()},
		{fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 70), []int{70, 3}, 0.9, 0, "sms=3,wait_sms=1,threads=64,scales=tile", "sms=2,wait_sms=1,threads=64", 3},
			dispatchFinal(), combineFinal()},
		{fastCase{pairProblem(ep.BF16, 2, 264, 8, 2, 70), []int{70, 3}, 0.9, 0, "sms=3,wait_sms=0,threads=96,team=2", "sms=2,threads=64,receivers=1", 3},
			dispatchFinalHome(), combineFinalPolled()},
	} {
		q.p.Layout = ep.LayoutExpert128
		t.Run(q.d.Kernel.Name, func(t *testing.T) {
			t.Parallel()
			q.checkCalls(q.prepare(t, q.d, q.c))
		})
	}
	for _, q := range []epCase{
		{name: "dispatch-fp8", dtype: ep.FP8, ranks: 2, experts: 8, topK: 2, hidden: 256, tokens: []int{70, 3}, max: 70, hot: 0.9, layout: ep.LayoutExpert128},
		{name: "dispatch-nvfp4", dtype: ep.NVFP4, ranks: 2, experts: 8, topK: 2, hidden: 256, tokens: []int{70, 3}, max: 70, hot: 0.9, shared: true, layout: ep.LayoutExpert128},
	} {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			e := q.prepare(t)
			e.run(2, e.round()...)
			e.check()
		})
	}
}
