package measure

import (
	"context"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// TestDisturbedLine: a config is unstable if every round reads kernels.LeastReading.
func TestDisturbedLine(t *testing.T) {
	for seconds, want := range map[float64]ep.Status{kernels.LeastReading: ep.Unstable, 20e-6: ep.OK} {
		r, log := runner(t, &fake{seconds: seconds}, "uniform", 1)
		if _, err := r.Measure(context.Background(), record.StageScreen, []int{2, 0}, 4); err != nil || log.lines[1].Status != want {
			t.Errorf("%v s: %s, %v; want %s", seconds, log.lines[1].Status, err, want)
		}
	}
}
