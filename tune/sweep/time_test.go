package sweep

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestTimeBudgetBounds: a sweep with little time runs only the least number of rounds that
// can decide something, and still makes a table. In a bubble of synctest only sleeping
// takes time, so a busy host changes nothing.
func TestTimeBudgetBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(t, "dispatch,combine,pair", []int{1, 64}, "uniform", "zipf:1.5")
		whole, bounded := &scripted{Sigma: 0.01}, &scripted{Sigma: 0.01}
		mustSweep(t, whole, o, filepath.Join(t.TempDir(), "run"))
		o.Time = 400 * time.Millisecond
		bounded.OnRun = func(call, []float64) error { time.Sleep(300 * time.Microsecond); return nil }
		start := time.Now()
		out := mustSweep(t, bounded, o, filepath.Join(t.TempDir(), "run"))
		if took := time.Since(start); bounded.Runs > whole.Runs/2 || took > 2*o.Time {
			t.Errorf("%d rounds in %v with a budget of %v, %d without", bounded.Runs, took, o.Time, whole.Runs)
		}
		if out.Table == nil {
			t.Error(out.NoTable)
		}
	})
}

// TestSlowOpening: the time that a session takes to open does not count against
// the A/A test.
func TestSlowOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(t, "dispatch", []int{16}, "uniform")
		o.Time = time.Second
		b := &scripted{Sigma: 0.03, OnOpen: func(int) error { time.Sleep(o.Time); return nil }}
		out := mustSweep(t, b, o, filepath.Join(t.TempDir(), "run"))
		if aa := out.Run.AA[0]; aa.Rounds < 100 {
			t.Errorf("%d rounds left a spread of %.4f", aa.Rounds, aa.Spread)
		}
	})
}
