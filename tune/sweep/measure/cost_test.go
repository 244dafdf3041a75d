package measure

import (
	"slices"
	"testing"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
)

// TestOneFold: all runs of a candidate have the same fold, the number of calls in a sample.
func TestOneFold(t *testing.T) {
	b := &fake{seconds: 1e-5}
	r, _ := runner(t, b, "uniform", 1)
	for _, points := range [][]int{{2, search.Twin}, live} {
		if _, err := r.Measure(t.Context(), record.StageScreen, points, 3); err != nil {
			t.Fatal(err)
		}
	}
	for _, point := range []int{0, 1, 3, 4} {
		if folds := b.folds[r.Config(point).Key()]; !slices.Equal(folds, []int{5, 5, 5, 5}) {
			t.Errorf("point %d ran with folds %v, want 5 (5 calls of 10 us)", point, folds)
		}
	}
}

func TestWallOfTheBackend(t *testing.T) {
	b := &fake{}
	r, _ := runner(t, b, "uniform", 1)
	if _, err := r.Measure(t.Context(), record.StageScreen, live, 3); err != nil {
		t.Fatal(err)
	}
	runs := 0
	for _, folds := range b.folds {
		runs += len(folds)
	}
	if got := *r.Wall; got.Run.Rounds != float64(runs) || got.Check.Reading != float64(len(live)) {
		t.Errorf("%+v after %d runs and %d comparisons of 1 s each", got, runs, len(live))
	}
}
