package drive

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// leastBatch is the least number of experts in one launch, if there are so many, because with
// fewer experts some SMs are idle.
const leastBatch = 8

// checkHeld refuses a product that may hold SMs too long. A call's blocks wait for SMs that blocks
// of the product hold, while other ranks spin for the call and must not pass their deadline.
func checkHeld(of ep.Product, seconds float64, deadline time.Duration) error {
	if limit := deadline / 4; time.Duration(seconds*float64(time.Second)) > limit {
		return fmt.Errorf("beside: %s takes %.3g s, and calls may wait %v for the SMs that it holds; give smaller sizes or fewer groups", of, seconds, limit)
	}
	return nil
}

// shareOf splits a share of passes into launches. Each launch has all groups if the share is a pass
// or more, else as many groups as the share needs, rounded up. passes is the number of launches
// in a pass as it was timed.
func shareOf(share float64, groups, passes, least int) (batch, launches int) {
	if passes > 1 || groups == 1 { // copies, or a single product
		return groups, max(least, int(math.Ceil(share*float64(passes))))
	}
	if share >= 1 {
		return groups, max(least, int(math.Ceil(share)))
	}
	want := int(math.Ceil(share * float64(groups)))
	batch = min(groups, rounded(max((want+least-1)/least, min(leastBatch, groups))))
	return batch, max(least, (want+batch-1)/batch)
}

// rounded rounds n up to a multiple of a quarter of the power of two below it. Runs whose calls
// differ by a few per cent then have launches of one size: launches of 51 and of 52 experts gave
// one pair costs of 66 and 49 us.
func rounded(n int) int {
	step := 1 << max(bits.Len(uint(n-1))-3, 0)
	return (n + step - 1) / step * step
}

// takenSMs lists how many SMs calls may take in the plans from which a product's own is chosen: the
// small values that kernels and searches offer. A config that leaves another number of SMs gets a
// plan of its own beside its calls.
var takenSMs = []int{16, 32, 48, 64}

// planMargin is how much faster a plan for fewer SMs must be to be chosen: times of the same
// launches differ by up to 0.4 % from round to round.
const planMargin = 0.01

// fastestPlan returns the index of the fastest of a product's plans, by its seconds alone. The
// first plan, for all SMs, wins unless another is faster by the margin.
func fastestPlan(seconds []float64) (best int) {
	bar := seconds[0] * (1 - planMargin)
	for i, t := range seconds {
		if t < bar {
			best, bar = i, t
		}
	}
	return best
}

// planBeside returns the SMs of the plan beside calls that leave so many SMs, 0 if they leave
// all. It is a plan for the SMs that are left. But if the product's own plan needs no more SMs
// than these, the own plan is used, because it is fastest alone, and an engine would use it too.
// 80 experts of DeepSeek-V3 with an own plan for 84 SMs once got a plan for 100 beside calls on
// 32, and the calls were charged for it.
func planBeside(own, left int) int {
	if left == 0 || 0 < own && own <= left {
		return own
	}
	return left
}
