package declare

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestFinalHomeAndPartialEmulated: dispatch_final_home gives the oracle's bytes. The outputs of
// combine_final_partial equal the oracle's partial sums bit for bit.
func TestFinalHomeAndPartialEmulated(t *testing.T) {
	oncePerRun(t)
	q := fastCase{pairProblem(ep.BF16, 2, 264, 32, 6, 6), []int{6, 2}, 0, 0.3,
		"sms=2,wait_sms=0,threads=64,team=1", "sms=2,wait_sms=0,threads=64", 10}
	q.checkCalls(q.prepare(t, dispatchFinalHome(), combineFinalPartial()))
}

// TestFinalHomeTeamsEmulated: dispatch_final_home gives the oracle's bytes if several warps (a team) send one token.
func TestFinalHomeTeamsEmulated(t *testing.T) {
	oncePerRun(t)
	checkEach(t, dispatchFinalHome(), combineFinalPolled(), []fastCase{
		{pairProblem(ep.FP8, 2, 1152, 32, 6, 9), []int{9, 4}, 0, 0.3, "sms=1,wait_sms=0,threads=96,team=2,scales=tile", "sms=1,threads=96,receivers=1", 9},
		{pairProblem(ep.FP8, 4, 640, 16, 4, 7), []int{7, 0, 3, 5}, 0.5, 0.1, "sms=2,wait_sms=1,threads=128,team=3,scales=row", "sms=1,threads=96,receivers=1", 5},
		{pairProblem(ep.BF16, 2, 2056, 16, 3, 12), []int{12, 5}, 0, 0, "sms=2,wait_sms=0,threads=288,team=2", "sms=1,threads=96,receivers=1", 4},
	})
}

// TestFinalHomeTeamsRace: all warps of a team store before one warp stores the header. A call's reads come before the
// stores of other ranks' next call.
func TestFinalHomeTeamsRace(t *testing.T) {
	oncePerRun(t)
	q := fastCase{pairProblem(ep.FP8, 2, 640, 8, 2, 5), []int{5, 3}, 0.3, 0,
		"sms=2,wait_sms=0,threads=128,team=2,scales=row", "sms=2,threads=64,receivers=1", 4}
	q.races(t, dispatchFinalHome(), combineFinalPolled())
}
