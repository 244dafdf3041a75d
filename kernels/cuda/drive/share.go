package drive

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// leastBatch is the least number of experts of one launch, where there are so many:
// fewer leave SMs idle.
const leastBatch = 8

// checkHeld refuses a product that may hold SMs too long. A call's blocks wait for the
// SMs that blocks of the product hold, and meanwhile other ranks spin for the call: they
// must not pass their deadline for it.
func checkHeld(of ep.Product, seconds float64, deadline time.Duration) error {
	if limit := deadline / 4; time.Duration(seconds*float64(time.Second)) > limit {
		return fmt.Errorf("beside: %s takes %.3g s, and calls may wait %v for the SMs that it holds; give smaller sizes or fewer groups", of, seconds, limit)
	}
	return nil
}

// shareOf splits a share of passes into launches: of all groups where it takes a pass or
// more, else of as many groups as it takes, rounded up. passes are the launches of a pass
// as it was timed.
func shareOf(share float64, groups, passes, least int) (batch, launches int) {
	if passes > 1 || groups == 1 { // copies, or one product
		return groups, max(least, int(math.Ceil(share*float64(passes))))
	}
	if share >= 1 {
		return groups, max(least, int(math.Ceil(share)))
	}
	want := int(math.Ceil(share * float64(groups)))
	batch = min(groups, rounded(max((want+least-1)/least, min(leastBatch, groups))))
	return batch, max(least, (want+batch-1)/batch)
}

// rounded is n rounded up to a multiple of a quarter of the power of two below it, so that
// runs whose calls differ by a few percent have launches of one size. Launches of 51 and of
// 52 experts made 66 and 49 us of the cost of one pair.
func rounded(n int) int {
	step := 1 << max(bits.Len(uint(n-1))-3, 0)
	return (n + step - 1) / step * step
}

// takenSMs are the SMs that calls take in the plans that a product's own is chosen of:
// what kernels and searches offer of few. A config that leaves another number has a plan of
// its own beside its calls.
var takenSMs = []int{16, 32, 48, 64}

// planMargin is how much faster a plan for fewer SMs must be to be taken: times of the
// same launches differ by up to 0.4 % from round to round.
const planMargin = 0.01

// fastestPlan is the index of the fastest of a product's plans, by its seconds alone. The
// first, for all SMs, stays unless another is faster by the margin.
func fastestPlan(seconds []float64) (best int) {
	bar := seconds[0] * (1 - planMargin)
	for i, t := range seconds {
		if t < bar {
			best, bar = i, t
		}
	}
	return best
}

// planBeside is the plan beside calls that leave so many SMs, 0 where they leave all: for
// these, unless the product's own plan needs no more. That one is fastest alone, so that
// no engine would give it up: 80 experts of DeepSeek-V3 that were planned for 84 SMs alone
// were planned for 100 beside calls on 32, and the calls paid for it.
func planBeside(own, left int) int {
	if left == 0 || 0 < own && own <= left {
		return own
	}
	return left
}
