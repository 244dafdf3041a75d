package sweep

import (
	"path/filepath"
	"testing"
	"time"
)

// TestTimeBudgetBounds counts rounds and not seconds: on a machine that others
// use too, a bounded sweep runs fewer, and takes longer than it spends.
func TestTimeBudgetBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	o := options(t, "dispatch,combine,pair", []int{1, 64}, "uniform", "zipf:1.5")
	whole, bounded := &scripted{Sigma: 0.01}, &scripted{Sigma: 0.01}
	mustSweep(t, whole, o, filepath.Join(t.TempDir(), "run"))
	o.Time = 400 * time.Millisecond
	bounded.OnRun = func(call, []float64) error { time.Sleep(100 * time.Microsecond); return nil }
	out := mustSweep(t, bounded, o, filepath.Join(t.TempDir(), "run"))
	if bounded.Runs > whole.Runs/2 {
		t.Errorf("%d rounds within %v, %d without a bound", bounded.Runs, o.Time, whole.Runs)
	}
	if out.Table == nil {
		t.Error(out.NoTable)
	}
}

// TestSlowOpening: the time that a session takes to open does not count against
// the A/A test.
func TestSlowOpening(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	o := options(t, "dispatch", []int{16}, "uniform")
	o.Time = time.Second
	b := &scripted{Sigma: 0.03, OnOpen: func(int) error { time.Sleep(o.Time); return nil }}
	out := mustSweep(t, b, o, filepath.Join(t.TempDir(), "run"))
	if aa := out.Run.AA[0]; aa.Rounds < 100 {
		t.Errorf("%d rounds left a spread of %.4f", aa.Rounds, aa.Spread)
	}
}
