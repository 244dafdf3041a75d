package sweep

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
)

// confirming reports whether a call follows the second comparison with the oracle.
func confirming(c call) bool { return c.Verify >= 2 }

func TestFailedChallengerMakesNoPairs(t *testing.T) {
	dir := t.TempDir()
	b := &scripted{Sigma: 0.005, OnRun: func(c call, _ []float64) error {
		if c.Config.Key() == best && confirming(c) {
			return kernels.Failf(ep.Crash, "signal 11")
		}
		return nil
	}}
	out := mustSweep(t, b, options(t, "pair", []int{16}, "uniform"), dir)
	d := out.Run.Searches[0].Decision
	if d.Config.Key() == best || d.Verdict != record.Faster || out.Run.Searches[0].Failed != 1 {
		t.Errorf("dispatch: verdict %s, config %s, %d configs failed", d.Verdict, d.Config.Key(), out.Run.Searches[0].Failed)
	}
	pairs := 0
	for _, r := range trials(t, dir) {
		if r.Problem.Op != ep.Pair {
			continue
		}
		pairs++
		if half, _, err := ep.Split(r.Config); err != nil || half.Key() == best {
			t.Fatalf("a pair of %s, %v", r.Config.Key(), err)
		}
	}
	if pairs == 0 {
		t.Error("no pair was tried")
	}
}

// TestWrongDefault: if the default is wrong after timing, there is no decision and no table.
func TestWrongDefault(t *testing.T) {
	b := &scripted{Sigma: 0.005, OnVerify: func(c call) (int, error) {
		if c.Config.Int("sms") == 8 && c.Config.Str("threads") == "256" && c.Runs > 5 {
			return 2, nil
		}
		return 0, nil
	}}
	out := mustSweep(t, b, options(t, "dispatch", []int{16}, "uniform"), t.TempDir())
	d := out.Run.Searches[0].Decision
	if d.Cause != record.NoDefault || !strings.Contains(d.Reason, "mismatch: 2 of 16") || !d.KeepsDefault() || d.Band.Policy != 0.01 || d.Band.AA == 0 || out.Table != nil {
		t.Errorf("%+v, table %v", d, out.Table != nil)
	}
}

// TestDefaultFailsWhileCrossing: rows are written although the default fails.
func TestDefaultFailsWhileCrossing(t *testing.T) {
	b := compromised()
	truth, runs := b.Truth, map[string]int{}
	b.Truth = func(p ep.Problem, routing string, c ep.Config) float64 {
		if c.Int("sms") == 62 && c.Str("threads") == "256" {
			runs[routing]++
		}
		if c.Int("sms") == 8 && c.Str("threads") == "256" && runs[routing] > 4*11 {
			return math.NaN()
		}
		return truth(p, routing, c)
	}
	out := mustSweep(t, b, compromiseOptions(t), t.TempDir())
	if runs["uniform"] <= 4*11 || len(out.Table.Rows) != 3 {
		t.Errorf("%d rows; sms=62 ran %v times", len(out.Table.Rows), runs)
	}
	for _, r := range out.Table.Rows {
		if r.Config.Int("sms") == 62 {
			t.Errorf("the row for %s has %s", r.Key.Routing, r.Config.Key())
		}
	}
}

func TestCompromiseOfOneClass(t *testing.T) {
	b := compromised()
	truth := b.Truth
	b.Truth = func(p ep.Problem, routing string, c ep.Config) float64 {
		return truth(p, map[string]string{"zipf:1.4": "uniform"}[routing], c)
	}
	o := options(t, "dispatch", []int{16}, "zipf:1.4", "zipf:1.5")
	o.Strategy = "grid"
	out := mustSweep(t, b, o, t.TempDir())
	if len(out.Table.Rows) != 2 {
		t.Fatalf("%d rows, want one row of the class and one row for all routings", len(out.Table.Rows))
	}
	for _, r := range out.Table.Rows {
		if r.Config.Int("sms") != 62 || math.Abs(r.Evidence.Regret-0.2) > 0.03 {
			t.Errorf("%s: %s, regret %v", r.Key.Routing, r.Config.Key(), r.Evidence.Regret)
		}
	}
}

func TestNothingIsComparedTwice(t *testing.T) {
	seen := map[string]int{}
	b := &scripted{Sigma: 0.002, OnVerify: func(c call) (int, error) {
		if c.Problem.Tokens == 128 {
			seen[c.Config.Key()]++
		}
		return 0, nil
	}, Truth: func(p ep.Problem, _ string, c ep.Config) float64 {
		if p.Tokens > 16 && c.Int("sms") == 32 {
			return 50e-6
		}
		return 100e-6
	}}
	out := mustSweep(t, b, options(t, "dispatch", []int{16, 1024}, "uniform"), t.TempDir())
	if len(out.Table.Rows) != 2 || !out.Table.Rows[0].Default {
		t.Errorf("rows %v", rows(out.Table))
	}
	if len(seen) != 2 {
		t.Errorf("configs measured between the searches: %v", seen)
	}
	for key, n := range seen {
		if n != 2 {
			t.Errorf("%s was compared with the oracle %d times, want 2", key, n)
		}
	}
}

// TestNoisySearchesTellTheirChallenger: a later search tries the fastest config of a noisy search.
func TestNoisySearchesTellTheirChallenger(t *testing.T) {
	dflt, fast := ep.Config{Kernel: "dispatch"}, ep.Config{Kernel: "dispatch", Values: map[string]ep.Value{"sms": "32"}}
	for cause, want := range map[record.Cause]ep.Config{record.Noisy: fast, record.HostBound: dflt, "": dflt} {
		c := &activeSearch{}
		c.result.Decision = record.Decision{Config: dflt, Default: dflt, Challenger: fast, Cause: cause}
		if got := c.hintForLater(); got.Key() != want.Key() {
			t.Errorf("cause %q: passes on %s", cause, got.Key())
		}
	}
}

func prepared(t *testing.T, b kernels.Backend, o *Options) *sweeper {
	t.Helper()
	p := planOf(t, b, o)
	run := &record.Run{Finished: time.Now(), AA: make([]record.AA, 1), Searches: make([]record.Search, 1), Workloads: make([]record.Workload, 1),
		Spaces: make([]record.SpaceInfo, 1), Warnings: []string{"old"}}
	d, err := record.CreateDir(t.TempDir(), run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	s, err := newSweeper(b, p, d, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestResumingStartsAnew: a resumed sweep first clears the results of the earlier command.
func TestResumingStartsAnew(t *testing.T) {
	r := prepared(t, &scripted{}, options(t, "dispatch", []int{16}, "uniform")).run
	if len(r.AA)+len(r.Searches)+len(r.Regrets)+len(r.Workloads)+len(r.Warnings) > 0 || !r.Finished.IsZero() || r.Band != 0.01 || len(r.Spaces) != 1 || r.Spaces[0].Points != 4*3 {
		t.Errorf("%+v", r)
	}
}

// TestHostBoundIsNotHurried: a host-bound search gives no warning about its time.
func TestHostBoundIsNotHurried(t *testing.T) {
	s := prepared(t, &scripted{}, options(t, "dispatch", []int{16}, "uniform"))
	c := s.searches[0]
	if err := s.start(c); err != nil {
		t.Fatal(err)
	}
	c.state = search.NewState(c.space, c.runner, search.Budget{}, c.dflt, c.required, nil)
	c.result.Decision.Cause = record.Noisy
	if _, err := c.runner.Measure(context.Background(), record.StageAA, []int{c.dflt}, 1); err != nil {
		t.Fatal(err)
	}
	s.harness.empty = map[string]float64{"wall": 1e-5}
	for seconds, want := range map[float64]int{1.1e-5: 0, 2e-5: 1} {
		c.aa.Default = seconds
		if got := s.hurriedSearches(); got != want {
			t.Errorf("a default of %v s: %d searches were short of time", seconds, got)
		}
	}
	c.state = nil
	if got := s.hurriedSearches(); got != 0 {
		t.Errorf("a search that failed was short of time")
	}
}

// TestHalfMeasuredDecidesNothing: an interrupt leaves one of two configs unmeasured, so neither is preferred.
func TestHalfMeasuredDecidesNothing(t *testing.T) {
	b := &scripted{Sigma: 0.005}
	s := prepared(t, b, options(t, "dispatch", []int{16, 1024}, "uniform"))
	ctx, cancel := context.WithCancel(context.Background())
	at := func(tokens int, sms ep.Value) rowChoice {
		c := &activeSearch{routedProblem: s.searches[0].routedProblem}
		c.problem.Tokens, c.problem.MaxTokens = tokens, tokens
		return rowChoice{tokens: tokens, searches: group{c}, config: ep.Config{Kernel: "dispatch", Values: map[string]ep.Value{"algo": "direct", "sms": sms, "threads": "512"}}}
	}
	refined := func(a, b rowChoice) group {
		low, high := &tokenRange{picks: []rowChoice{a}, lo: 16, hi: 16}, &tokenRange{picks: []rowChoice{b}, lo: 1024, hi: 1024}
		if err := s.refine(ctx, low, high); err != nil {
			t.Fatal(err)
		}
		return s.rowMaker().refined(low, high)
	}
	first := at(1024, "32")
	if there := refined(at(16, "16"), first); len(there) != 1 || there[0].problem.Tokens != 128 {
		t.Fatalf("%d searches between the two token counts, want one at 128 tokens", len(there))
	}
	b.OnRun = func(c call, _ []float64) error { cancel(); return nil }
	if there := refined(at(16, "16"), at(1024, "64")); there != nil {
		t.Errorf("decided on %d searches", len(there))
	}
	if there := refined(at(16, "16"), first); len(there) != 1 {
		t.Error("the measurements before the interrupt are lost")
	}
}
