package measure

import (
	"context"
	"time"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
)

// AA measures the default against itself. limit is the time of the search,
// 0 for none: the test takes at most its share of that. It returns
// search.ErrDefault when the default does not run here.
func (r *Runner) AA(ctx context.Context, limit time.Duration) (record.AA, error) {
	p := r.Policy
	test := search.AA{Band: p.Band, Rounds: p.AARounds, MaxRounds: p.MaxAA, Limit: time.Duration(p.AAShare * float64(limit))}
	var err error
	r.aa, err = test.Measure(ctx, r, r.Default, r.Seed("aa"))
	return record.AA{Problem: r.Workload.Problem.Key(), Routing: r.Workload.Spec, Ratio: r.aa.Ratio, Spread: r.aa.Spread, Rounds: r.aa.Rounds}, err
}

// DefaultTime is the default's median in the A/A rounds, seconds; 0 before.
func (r *Runner) DefaultTime() float64 { return r.aa.Default }

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
