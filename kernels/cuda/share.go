package cuda

import "math"

// besideSource holds the kernels of loads and of filling factors.
const besideSource = "beside/load.cuh"

// leastBatch is the least number of experts of one launch, where there are so many:
// fewer leave SMs idle.
const leastBatch = 8

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
	batch = min(groups, max(want/least, min(leastBatch, groups)))
	return batch, max(least, (want+batch-1)/batch)
}
