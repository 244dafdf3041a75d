package workloads

import (
	"testing"
	"time"

	"github.com/epbench/epbench/tune/processor"
)

// TestSpeed checks the promise of docs/workloads.md: 8 ranks x 8192 tokens x top-8 of 256
// are drawn within 100 ms on two cores if nothing is solved, otherwise within 400 ms. It
// measures processor time, not wall time, and takes the best of a few runs, because other
// tests run at the same time.
func TestSpeed(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("measures times; left out with -short and under the race detector")
	}
	const cores = 2
	check := func(specs []string, bound time.Duration) {
		for _, spec := range specs {
			best := time.Hour
			for range 8 {
				start := processor.Time(t)
				mustNew(t, spec, v3(8192), 1)
				if best = min(best, (processor.Time(t)-start)/cores); best < bound {
					break
				}
			}
			if best > bound {
				t.Errorf("%s: %v on %d cores, the promise is %v", spec, best, cores, bound)
			}
		}
	}
	check(plainSpecs, 100*time.Millisecond)
	check(solvedSpecs, 400*time.Millisecond)
}
