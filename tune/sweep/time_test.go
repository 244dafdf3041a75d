package sweep

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

func TestTimeBudgetBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(t, "dispatch,combine,pair", []int{1, 64}, "uniform", "zipf:1.5")
		whole, bounded := &scripted{Sigma: 0.01}, &scripted{Sigma: 0.01}
		mustSweep(t, whole, o, t.TempDir())
		o.Time = 400 * time.Millisecond
		bounded.OnRun = func(call, []float64) error { time.Sleep(300 * time.Microsecond); return nil }
		start := time.Now()
		out := mustSweep(t, bounded, o, t.TempDir())
		if took := time.Since(start); bounded.Runs > whole.Runs/2 || took > 2*o.Time {
			t.Errorf("%d rounds in %v with a budget of %v, %d without", bounded.Runs, took, o.Time, whole.Runs)
		}
		if out.Table == nil {
			t.Error(out.NoTable)
		}
	})
}

// TestSlowOpening: opening a session is not part of the A/A test.
func TestSlowOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(t, "dispatch", []int{16}, "uniform")
		o.Time = time.Second
		b := &scripted{Sigma: 0.03, OnOpen: func(int) error { time.Sleep(o.Time); return nil }}
		out := mustSweep(t, b, o, t.TempDir())
		if aa := out.Run.AA[0]; aa.Rounds < 100 {
			t.Errorf("%d rounds left a spread of %.4f", aa.Rounds, aa.Spread)
		}
	})
}

// TestBudgetIsHeld: a sweep takes at most 10 % more than its budget.
func TestBudgetIsHeld(t *testing.T) {
	for _, c := range []struct {
		name                string
		open, verify, round time.Duration
		tokens              []int
		sessions            int
		budget              time.Duration
	}{
		{"12 sessions", 500 * time.Millisecond, 50 * time.Millisecond, 4 * time.Millisecond, []int{16}, 12, 90 * time.Second},
		{"three token counts", 200 * time.Millisecond, 20 * time.Millisecond, 4 * time.Millisecond, []int{1, 16, 64}, DefaultSessions, 90 * time.Second},
		{"slow comparisons", 10 * time.Millisecond, 400 * time.Millisecond, 2 * time.Millisecond, []int{16}, 3, 2 * time.Minute},
		{"slow rounds", 10 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, []int{16}, 3, 5 * time.Minute},
		{"no sessions", 10 * time.Millisecond, 10 * time.Millisecond, 5 * time.Millisecond, []int{1, 16, 64}, 1, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := options(t, "dispatch", c.tokens, "uniform", "zipf:1.5")
				o.Time, o.Sessions, o.Strategy, o.Began = c.budget, c.sessions, "auto", time.Now()
				b := &scripted{Sigma: 0.01, SMs: manySMs}
				b.OnOpen = func(int) error { time.Sleep(c.open); return nil }
				b.OnVerify = func(call) (int, error) { time.Sleep(c.verify); return 0, nil }
				b.OnRun = func(call, []float64) error { time.Sleep(c.round); return nil }
				out := mustSweep(t, b, o, t.TempDir())
				took := time.Since(o.Began)
				if share := took.Seconds() / c.budget.Seconds(); share > 1.1 || share < 0.8 {
					t.Errorf("took %v of %v", took, c.budget)
				}
				if out.Table == nil {
					t.Error(out.NoTable)
				}
				t.Logf("%v of %v, %d configs", took, c.budget, out.Run.Searches[0].Tried)
			})
		})
	}
}

var manySMs = func() (out []int) {
	for i := range 64 {
		out = append(out, i+1)
	}
	return out
}()

func TestLeastBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(t, "dispatch", []int{16}, "uniform")
		o.Time, o.Sessions = time.Second, 3
		b := &scripted{Sigma: 0.002, OnOpen: func(int) error { time.Sleep(time.Second); return nil },
			OnVerify: func(call) (int, error) { time.Sleep(50 * time.Millisecond); return 0, nil },
			OnRun:    func(call, []float64) error { time.Sleep(5 * time.Millisecond); return nil }}
		p := planOf(t, b, o)
		if err := p.Probe(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		mustSweep(t, b, o, t.TempDir())
		took, least := time.Since(start).Seconds(), p.Least().Seconds()
		if took < 0.9*least || took > 1.3*least {
			t.Errorf("took %.1f s, Least predicted %.1f s", took, least)
		}
	})
}

// TestProbeOfCrash: wrong answers do not end a probe, because the search reports them.
func TestProbeOfCrash(t *testing.T) {
	o := options(t, "dispatch", []int{1, 16, 64}, "uniform")
	o.Time = time.Second
	for status, ends := range map[ep.Status]bool{ep.Crash: true, ep.Hang: true, ep.Mismatch: false} {
		opened := 0
		b := &scripted{OnOpen: func(int) error { opened++; return nil },
			OnVerify: func(call) (int, error) { return 0, kernels.Failf(status, "rank 1: topk_idx.dim() == 2") }}
		p := planOf(t, b, o)
		err := p.Probe(t.Context(), b)
		if ends != (err != nil) || ends && (opened != 1 || !strings.Contains(err.Error(), "dispatch, bf16, 1 token, uniform: the default failed: "+string(status)+": rank 1: topk_idx.dim() == 2; mend the worker")) {
			t.Errorf("%s: %v after %d sessions", status, err, opened)
		}
	}
}
