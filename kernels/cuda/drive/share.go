package drive

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// leastBatch is the smallest number of experts in a launch of the matrix product.
const leastBatch = 8

// checkHeld refuses a product that would occupy SMs for more than a quarter of the calls' deadline.
func checkHeld(of ep.Product, seconds float64, deadline time.Duration) error {
	if limit := deadline / 4; time.Duration(seconds*float64(time.Second)) > limit {
		return fmt.Errorf("beside: %s takes %.3g s, but calls may wait at most %v for its SMs; give smaller sizes or fewer groups", of, seconds, limit)
	}
	return nil
}

// shareOf divides the product beside one call into launches. The product has one group for each expert. A pass computes
// all groups once, and `share` is the number of passes beside one call. In the trial that timed the product, one pass
// had `perPass` launches. shareOf returns how many groups a launch computes, and the number of launches, which is at
// least `least`.
func shareOf(share float64, groups, perPass, least int) (batch, launches int) {
	if perPass > 1 || groups == 1 { // a product of kind copy has perPass > 1; one group cannot be divided
		return groups, max(least, int(math.Ceil(share*float64(perPass))))
	}
	if share >= 1 {
		return groups, max(least, int(math.Ceil(share)))
	}
	want := int(math.Ceil(share * float64(groups)))
	batch = min(groups, rounded(max((want+least-1)/least, min(leastBatch, groups))))
	return batch, max(least, (want+batch-1)/batch)
}

// rounded rounds n up to three significant bits, so that similar runs have the same launches.
func rounded(n int) int {
	step := 1 << max(bits.Len(uint(n-1))-3, 0)
	return (n + step - 1) / step * step
}

// takenSMs lists the numbers of SMs that plans leave to calls.
var takenSMs = []int{16, 32, 48, 64}

// planMargin is the relative gain that a plan must have over the first plan, because times vary by 0.4 %.
const planMargin = 0.01

// fastestPlan returns the index of the fastest plan, or 0 if no plan has a gain of planMargin.
func fastestPlan(seconds []float64) (best int) {
	bar := seconds[0] * (1 - planMargin)
	for i, t := range seconds {
		if t < bar {
			best, bar = i, t
		}
	}
	return best
}

// planBeside returns the number of SMs that the product's plan has while calls run; 0 means all. Calls leave `left` SMs
// free. Without calls, the plan for `own` SMs is the fastest. planBeside keeps this plan if it fits, even if a larger
// plan fits too: a larger plan can take longer, and the calls would then seem to cause the longer time.
func planBeside(own, left int) int {
	if left == 0 || 0 < own && own <= left {
		return own
	}
	return left
}
