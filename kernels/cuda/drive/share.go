package drive

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// leastBatch is the least number of experts in one launch of the matrix product that runs beside
// calls. With fewer experts some SMs would be idle.
const leastBatch = 8

// checkHeld refuses a product that may hold SMs too long. The blocks of a call wait for SMs that blocks
// of the product hold. Meanwhile other ranks wait for the call, and must not pass their deadline.
func checkHeld(of ep.Product, seconds float64, deadline time.Duration) error {
	if limit := deadline / 4; time.Duration(seconds*float64(time.Second)) > limit {
		return fmt.Errorf("beside: %s takes %.3g s, but calls may wait at most %v for its SMs; give smaller sizes or fewer groups", of, seconds, limit)
	}
	return nil
}

// shareOf divides `share` passes over a product's groups (experts) into launches of `batch` groups. If
// share is at least one pass, each launch has all groups. Otherwise all launches together have the groups
// that the share needs, rounded up. `passes` is the number of launches of one pass when its time was taken;
// `least` is the least number of launches.
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

// rounded rounds n up to a number with three significant bits, such as 48, 56, 64 or 80. Runs whose calls
// differ by a few per cent then have launches of the same size. Without rounding, the cost of one pair was
// 66 us beside launches of 51 experts and 49 us beside launches of 52.
func rounded(n int) int {
	step := 1 << max(bits.Len(uint(n-1))-3, 0)
	return (n + step - 1) / step * step
}

// takenSMs lists numbers of SMs that calls often take. The product's own plan is chosen among plans
// for all SMs, and for all SMs less one of these numbers. If a config takes another number of SMs, a
// further plan is made for it.
var takenSMs = []int{16, 32, 48, 64}

// planMargin is the fraction by which a plan for fewer SMs must be faster to be chosen. Times of the
// same launches differ by up to 0.4 % from round to round.
const planMargin = 0.01

// fastestPlan returns the index of the fastest plan. seconds holds the time of the product alone with
// each plan. The first plan, for all SMs, wins unless another is faster by planMargin.
func fastestPlan(seconds []float64) (best int) {
	bar := seconds[0] * (1 - planMargin)
	for i, t := range seconds {
		if t < bar {
			best, bar = i, t
		}
	}
	return best
}

// planBeside returns the number of SMs for which the product is planned while calls run; 0 means all SMs.
// It is `own`, of the plan that is fastest alone, if the calls leave so many SMs, and otherwise `left`, the
// SMs that the calls leave. Serving engines do the same. More SMs may be slower: for 80 experts of
// DeepSeek-V3, a plan for 100 SMs was slower than one for 84. With the slower plan, calls would seem more
// expensive than they are.
func planBeside(own, left int) int {
	if left == 0 || 0 < own && own <= left {
		return own
	}
	return left
}
