package sweep

import (
	"context"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// ranOn runs a sweep with a clock that reads `empty` seconds for an empty kernel.
func ranOn(t *testing.T, b *scripted, o *Options, empty float64) *Summary {
	t.Helper()
	p := planOf(t, b, o)
	run := &record.Run{Machine: b.Machine(), ABI: ABI(b), Space: p.Fingerprint, Policy: p.Policy.String(), Seed: o.Seed, Empty: map[string]float64{"wall": empty}}
	d, err := record.CreateDir(t.TempDir(), run)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	out, err := Run(context.Background(), b, p, d, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func beside(o *Options) *Options {
	for i := range o.Problems {
		o.Problems[i].Beside, o.Problems[i].Objective = "copy", ep.BesideProduct
	}
	return o
}

func TestCrossingKeepsHostBound(t *testing.T) {
	b := exact(shares{16: {"uniform": {32: 0.97}, "zipf:1.5": {32: 0.5}}})
	quiet := b.Truth
	b.Truth = func(p ep.Problem, routing string, c ep.Config) float64 {
		if routing == "uniform" {
			return quiet(p, routing, c)
		}
		return 10 * quiet(p, routing, c)
	}
	for _, s := range ranOn(t, b, exactOptions(t, []int{16}, "uniform", "zipf:1.5"), 95e-6).Run.Searches {
		if bound := s.Decision.Cause == record.HostBound; bound != (s.Routing == "uniform") || bound && s.Decision.Crossed {
			t.Errorf("%s: cause %q, crossed %v, %s", s.Routing, s.Decision.Cause, s.Decision.Crossed, s.Decision.Config.Key())
		}
	}
}

// TestCostsAreNotHostBound: a cost near the time of an empty kernel is not host-bound.
func TestCostsAreNotHostBound(t *testing.T) {
	b := exact(nil)
	b.Truth = func(_ ep.Problem, _ string, c ep.Config) float64 {
		if c.Int("sms") == 32 {
			return 0.5e-6
		}
		return 2.2e-6
	}
	s := ranOn(t, b, beside(exactOptions(t, []int{16}, "uniform")), 2e-6).Run.Searches[0]
	if s.Decision.Cause == record.HostBound || s.Decision.Config.Str("sms") != "32" {
		t.Errorf("cause %q, config %s", s.Decision.Cause, s.Decision.Config.Key())
	}
}

// TestCrossingCostsAreTheWinners: the recorded cost is that of the config chosen after the crossing.
func TestCrossingCostsAreTheWinners(t *testing.T) {
	b := compromised()
	others, calls := b.Truth, 0
	b.Truth = func(p ep.Problem, routing string, cfg ep.Config) float64 {
		if cfg.Int("sms") != 62 || cfg.Str("threads") != "256" {
			return others(p, routing, cfg)
		}
		if calls++; routing == "uniform" && calls <= 12*p.Ranks {
			return 100e-6
		}
		return 40e-6
	}
	crossed := false
	for _, s := range ranOn(t, b, beside(compromiseOptions(t)), 0).Run.Searches {
		crossed = crossed || s.Decision.Crossed
		if cost := s.Beside.Config.Cost.Mid; cost > s.Times.Median*1.05 || cost < s.Times.Median/1.05 {
			t.Errorf("%s: median %g, cost %g", s.Routing, s.Times.Median, cost)
		}
	}
	if !crossed {
		t.Error("no decision was changed: the test shows nothing")
	}
}
