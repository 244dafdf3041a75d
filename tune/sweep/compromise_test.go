package sweep

import (
	"math"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// compromised returns a backend with thirty fast configs for each of two routings. Under both routings, sms=62 is
// slower and reaches no finals.
func compromised() *scripted {
	b := &scripted{Sigma: 0.002}
	for n := range 62 {
		b.SMs = append(b.SMs, n+1)
	}
	b.Truth = func(_ ep.Problem, routing string, c ep.Config) float64 {
		share, n := 1.0, c.Int("sms")
		switch {
		case c.Str("threads") != "256" || n == 8:
		case n == 62:
			share = 0.6
		case routing == "uniform" && n < 31 || routing != "uniform" && n > 31:
			share = 0.5 + 0.001*float64(n%30)
		}
		return share * 100e-6
	}
	return b
}

func compromiseOptions(t *testing.T) *Options {
	o := options(t, "dispatch", []int{16}, "uniform", "zipf:1.5")
	o.Strategy = "grid"
	return o
}

// TestCompromise: a config that no search chose may get the row for all routings. The sweep measures and
// verifies this config under every routing.
func TestCompromise(t *testing.T) {
	dir := t.TempDir()
	out := mustSweep(t, compromised(), compromiseOptions(t), dir)
	for _, r := range out.Table.Rows {
		if got := r.Config.Int("sms"); (got == 62) != (r.Key.Routing == ep.AllRoutings) {
			t.Errorf("the row for %s has sms=%d", r.Key.Routing, got)
		}
		if e := r.Evidence; r.Key.Routing == ep.AllRoutings && (math.Abs(e.Regret-0.2) > 0.03 || math.Abs(e.Gain-1/0.6) > 0.05 || len(e.Routings) != 2) {
			t.Errorf("all routings: regret %g, gain %g, %v", e.Regret, e.Gain, e.Routings)
		}
	}
	if len(out.Table.Rows) != 3 {
		t.Errorf("%d rows, want 3", len(out.Table.Rows))
	}
	last := map[string]string{} // by routing
	for _, r := range trials(t, dir) {
		if r.Config.Int("sms") == 62 && r.Config.Str("threads") == "256" {
			if r.Stage == record.StageFinals {
				t.Fatal("sms=62 came to the finals: the test shows nothing")
			}
			last[r.Routing] += string(r.Stage) + " "
		}
	}
	for routing, stages := range last {
		if !strings.HasSuffix(stages, string(record.StageCross+" "+record.StageRecheck+" ")) {
			t.Errorf("%s: stages of sms=62: %s", routing, stages)
		}
	}
}

func TestWrongCompromise(t *testing.T) {
	b := compromised()
	b.OnVerify = func(c call) (wrong int, err error) {
		if c.Config.Int("sms") == 62 && c.Runs > 20 {
			return 1, nil
		}
		return 0, nil
	}
	out := mustSweep(t, b, compromiseOptions(t), t.TempDir())
	for _, r := range out.Table.Rows {
		if r.Config.Int("sms") == 62 {
			t.Errorf("the row for %s has sms=62, whose answers are wrong", r.Key.Routing)
		}
	}
}

func TestInterruptedCompromise(t *testing.T) {
	o := compromiseOptions(t)
	want := mustSweep(t, compromised(), o, t.TempDir())
	dir := t.TempDir()
	stops := 0
	sameRows(t, interrupted(t, compromised, o, dir, func(*Summary) { stops++ }), want)
	noDuplicates(t, dir)
	if stops < 3 {
		t.Errorf("interrupted %d times", stops)
	}
}

// TestCrossingCorrectsADecision: in the search, the fastest config looks slow. Then crossAll measures the winners of
// all routings together, and this config is fast. The row takes this config.
func TestCrossingCorrectsADecision(t *testing.T) {
	for name, c := range map[string]struct {
		share float64 // time of sms=62, relative to the default
		sms   int
	}{"faster than the winner": {0.4, 62}, "within the band": {0.498, 0}} {
		b := compromised()
		others, calls := b.Truth, 0
		b.Truth = func(p ep.Problem, routing string, cfg ep.Config) float64 {
			if cfg.Int("sms") != 62 || cfg.Str("threads") != "256" {
				return others(p, routing, cfg)
			}
			if routing == "uniform" {
				if calls++; calls <= 12*p.Ranks {
					return 100e-6
				}
				return c.share * 100e-6
			}
			return 40e-6
		}
		out := mustSweep(t, b, compromiseOptions(t), t.TempDir())
		d := out.Run.Searches[0].Decision
		if d.Crossed != (c.sms == 62) || (d.Config.Int("sms") == 62) != d.Crossed {
			t.Fatalf("%s: decision %+v", name, d)
		}
		for _, r := range out.Table.Rows {
			if r.Key.Routing != ep.Even {
				continue
			}
			e := r.Evidence
			if r.Config.Key() != d.Config.Key() || e.Gain != d.Gain.Mid {
				t.Errorf("%s: the row for uniform has %s and gain %v, the decision %s and %v", name, r.Config.Key(), e.Gain, d.Config.Key(), d.Gain.Mid)
			}
			if c.sms == 62 && (math.Abs(e.Gain-1/0.4) > 0.05 || e.GainLow < 2.4 || len(e.Routings) != 1) {
				t.Errorf("%s: evidence %+v", name, e)
			}
		}
	}
}

// TestUndecidedTakesNoRow: an undecided config gets no row, although its mean time is shorter than the default's.
func TestUndecidedTakesNoRow(t *testing.T) {
	o := options(t, "dispatch", []int{16}, "uniform", "zipf:1.0")
	o.Strategy = "grid"
	b := &scripted{SMs: []int{8, 16}, Truth: func(ep.Problem, string, ep.Config) float64 { return 100e-6 }}
	b.OnRun = func(c call, seconds []float64) error {
		if c.Config.Str("sms") != "16" || c.Config.Str("threads") != "256" {
			return nil
		}
		for i := range seconds {
			seconds[i] *= [2]float64{0.6, 1.2}[c.Runs%2]
		}
		return nil
	}
	out := mustSweep(t, b, o, t.TempDir())
	for _, s := range out.Run.Searches {
		if !s.Decision.KeepsDefault() {
			t.Fatalf("%s: %s is chosen: the test shows nothing", s.Routing, s.Decision.Config.Key())
		}
	}
	for _, r := range out.Table.Rows {
		if !r.Default {
			t.Errorf("%s: %s, gain %.3f [%.3f, %.3f]", r.Key.Routing, r.Config.Key(), r.Evidence.Gain, r.Evidence.GainLow, r.Evidence.GainHigh)
		}
	}
}
