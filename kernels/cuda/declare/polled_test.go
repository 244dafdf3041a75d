package declare

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestFinalPolledEmulated: after each of the two designs of dispatch_final, the outputs of combine_ll with after=final
// equal the oracle's bit for bit.
func TestFinalPolledEmulated(t *testing.T) {
	oncePerRun(t)
	for _, q := range []struct {
		fastCase
		d Declaration
	}{
		{fastCase{pairProblem(ep.BF16, 2, 264, 32, 6, 6), []int{6, 2}, 0, 0.3,
			"sms=2,wait_sms=0,threads=64,team=1", "sms=3,threads=96,receivers=1", 10}, dispatchFinalHome()},
		{fastCase{pairProblem(ep.FP8, 4, 256, 16, 4, 5), []int{5, 0, 3}, 0.4, 0.2,
			"sms=3,wait_sms=1,threads=64", "sms=2,threads=64,receivers=0,algo=dedup", 10}, dispatchFinal()},
		{fastCase{pairProblem(ep.BF16, 3, 264, 12, 3, 7), []int{7, 0, 4}, 0.3, 0.2,
			"sms=3,wait_sms=1,threads=64", "sms=2,threads=64,own=slot,receivers=0", 6}, dispatchFinal()},
		{fastCase{pairProblem(ep.FP8, 2, 256, 8, 3, 6), []int{6, 3}, 0.2, 0.2,
			"sms=2,wait_sms=0,threads=64,team=1", "sms=2,threads=64,own=slot,receivers=0,algo=dedup,mode=split,recv_sms=3", 6}, dispatchFinalHome()},
		{fastCase{pairProblem(ep.BF16, 2, 264, 8, 3, 6), []int{2, 6}, 0, 0,
			"sms=2,wait_sms=0,threads=64,team=1", "sms=2,threads=64,receivers=0,mode=split,recv_sms=1", 6}, dispatchFinalHome()},
	} {
		t.Run(q.name(), func(t *testing.T) {
			t.Parallel()
			q.checkCalls(q.prepare(t, q.d, combineFinalPolled()))
		})
	}
}

// TestFinalPolledRace: slots are empty before they are polled. Rows are read only after the kernel
// that placed them has ended.
func TestFinalPolledRace(t *testing.T) {
	oncePerRun(t)
	q := fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0,
		"sms=3,wait_sms=1,threads=64", "sms=2,threads=64,receivers=1", 4}
	q.races(t, dispatchFinal(), combineFinalPolled())
}

// TestStatesThatExtend: dispatches of state final also run in final-polled memory. For a combine of final-polled,
// memory of state final is too small.
func TestStatesThatExtend(t *testing.T) {
	p := pairProblem(ep.FP8, 2, 7168, 256, 8, 128)
	final, polled := finalState.RegionsFor(p), polledState.RegionsFor(p)
	for i, r := range final {
		if polled[i].Name != r.Name {
			t.Errorf("region %d is %s, but in state %s it is %s", i, polled[i].Name, finalState.Name, r.Name)
		}
	}
	if last := polled[len(polled)-1]; last.Bytes != 2*128*8*2*7168 || last.Fill != 0xff {
		t.Errorf("%+v", last)
	}
	follows := pairCheck(combineFinalPolled(), Declarations())
	for _, f := range []Declaration{dispatchFinal(), dispatchFinalHome(), dispatchLL(), dispatchLLIDs()} {
		err := follows(f.Kernel.DefaultConfig(onCPU(), p), combineFinalPolled().Kernel.DefaultConfig(onCPU(), p))
		if (err == nil) != (f.State.Name == finalState.Name) || err != nil && !strings.Contains(err.Error(), "reads memory of the state final-polled") {
			t.Errorf("%s: %v", f.Kernel.Name, err)
		}
	}
	if polledState.serves(finalState) == finalState.serves(polledState) {
		t.Error("exactly one of the two states must serve the other")
	}
}
