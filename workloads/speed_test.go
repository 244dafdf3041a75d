package workloads

import (
	"testing"

	"github.com/epbench/epbench/tune/processor"
)

// TestSpeed draws 8 ranks x 8192 tokens x top-8 of 256 experts.
func TestSpeed(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("measures times; left out with -short and under the race detector")
	}
	draw := func(spec string) func() { return func() { mustNew(t, spec, v3(8192), 1) } }
	check := func(specs []string, bound float64) {
		for _, spec := range specs {
			if ratio := processor.Ratio(t, 8, bound, draw(spec), draw("uniform")); ratio > bound {
				t.Errorf("%s takes %.1f times as long as uniform, at most %g are allowed", spec, ratio, bound)
			} else {
				t.Logf("%s: %.1f", spec, ratio)
			}
		}
	}
	check(plainSpecs, 16)
	check(solvedSpecs, 40)
}
