package cuda

import (
	"fmt"
	"math"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// besideSource holds the kernels of loads and of filling factors.
const besideSource = "beside/load.cuh"

// copySource holds the plain copy of CopyProbe.
const copySource = "beside/copy.cuh"

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
// more, else of as many groups as it takes. passes are the launches of a pass as it was
// timed.
func shareOf(share float64, groups, passes, least int) (batch, launches int) {
	if passes > 1 || groups == 1 { // copies, or one product
		return groups, max(least, int(math.Ceil(share*float64(passes))))
	}
	if share >= 1 {
		return groups, max(least, int(math.Ceil(share)))
	}
	want := int(math.Ceil(share * float64(groups)))
	batch = min(groups, max((want+least-1)/least, min(leastBatch, groups)))
	return batch, max(least, (want+batch-1)/batch)
}
