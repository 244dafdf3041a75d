package sweep

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/epbench/epbench/tune/plan"
	"github.com/epbench/epbench/tune/sweep/scripted"
)

// TestCompromise: what is second under every routing is told to callers who know nothing
// of theirs, where each routing's own choice loses more under another; the classes keep
// their own.
func TestCompromise(t *testing.T) {
	o := options(t, "dispatch", []int{16}, "uniform", "zipf:1.5")
	share := map[string]map[string]float64{ // of the default's time, by sms
		"uniform":  {"16": 0.55, "32": 0.5, "64": 0.9},
		"zipf:1.5": {"16": 0.55, "32": 0.9, "64": 0.5},
	}
	b := &scripted.Backend{Sigma: 0.002, Truth: func(_ plan.Problem, routing string, c plan.Config) float64 {
		of, ok := share[routing][c.Str("sms")]
		if !ok || c.Str("threads") != "256" {
			of = 1
		}
		return of * 100e-6
	}}
	out := mustSweep(t, b, o, filepath.Join(t.TempDir(), "run"))
	want := map[plan.Class]string{plan.Even: "32", plan.Concentrated: "64", plan.Skewed: "64", plan.HotRank: "64", plan.AnyRouting: "16"}
	for _, r := range out.Table.Rows {
		if got := r.Config.Str("sms"); got != want[r.Key.Routing] {
			t.Errorf("%s: sms=%s, want %s", r.Key.Routing, got, want[r.Key.Routing])
		}
		if e := r.Evidence; r.Key.Routing == plan.AnyRouting && (math.Abs(e.Regret-0.1) > 0.02 || math.Abs(e.Gain-1/0.55) > 0.05 || len(e.Routings) != 2) {
			t.Errorf("any routing: regret %g, gain %g, %v", e.Regret, e.Gain, e.Routings)
		}
	}
	if len(out.Table.Rows) != 3 {
		t.Errorf("%d rows", len(out.Table.Rows))
	}
}
