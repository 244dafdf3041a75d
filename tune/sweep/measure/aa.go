package measure

import (
	"context"
	"time"

	"github.com/epbench/epbench/tune/record"
)

// AA measures the default against itself. limit is the time of the search,
// 0 for none: the test takes at most its share of that. It returns
// search.ErrDefault when the default does not run here.
func (r *Runner) AA(ctx context.Context, limit time.Duration) (record.AA, error) {
	share := time.Duration(r.Policy.AAShare * float64(limit))
	aa, err := r.Policy.AA(ctx, r, r.Default, r.Seed("aa"), share)
	aa.Problem, aa.Routing = r.Workload.Problem.Key(), r.Workload.Spec
	return aa, err
}

// hostFactor times an empty kernel's reading is where launching, not the
// kernel, sets the time.
const hostFactor = 1.2

// HostBound reports whether a kernel that takes seconds by a clock does hardly
// more than start and stop. empty is the reading of an empty kernel by each
// clock.
func HostBound(seconds float64, clock string, empty map[string]float64) bool {
	reading, ok := empty[clock]
	return ok && seconds <= hostFactor*reading
}
