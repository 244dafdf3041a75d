package sweep

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestRowsClaimWhatHoldsBetween: the gain that a row claims is no larger than the gain that its config has at a token
// count between two searches.
func TestRowsClaimWhatHoldsBetween(t *testing.T) {
	o := options(t, "dispatch", []int{16, 1024}, "uniform", "zipf:1.0")
	o.Strategy = "grid"
	share := map[string]map[int]float64{ // time divided by the default's, by SMs and tokens
		"16": {16: 0.5, 128: 0.8, 1024: 0.95},
		"32": {16: 0.9, 128: 0.9, 1024: 0.5},
	}
	b := &scripted{Sigma: 0.002, Truth: func(p ep.Problem, _ string, c ep.Config) float64 {
		s := 100e-6
		if of, ok := share[c.Str("sms")]; ok && c.Str("threads") == "256" {
			s *= of[p.Tokens]
		}
		return s
	}}
	out := mustSweep(t, b, o, t.TempDir())
	between := 0
	for _, r := range out.Table.Rows {
		least := math.Inf(1)
		for _, n := range r.Evidence.Tokens {
			least = min(least, 1/share[r.Config.Str("sms")][n])
		}
		if slices.Contains(r.Evidence.Tokens, 128) {
			between++
		}
		if e := r.Evidence; e.Gain > least*1.02 || e.Gain < least/1.02 || math.Abs(e.Median*e.Gain-100e-6) > 3e-6 {
			t.Errorf("%s, %v tokens, %s: gain %g, median %g; least %g", r.Key.Routing, e.Tokens, r.Config.Key(), e.Gain, e.Median, least)
		}
	}
	if between == 0 {
		t.Error("no row was measured between the searches")
	}
}

func TestDefaultBetweenTwoWinners(t *testing.T) {
	o := options(t, "dispatch", []int{16, 1024}, "uniform")
	o.Strategy = "grid"
	b := &scripted{Sigma: 0.002, Truth: func(p ep.Problem, _ string, c ep.Config) float64 {
		share := map[string]map[int]float64{ // time divided by the default's, by SMs and tokens
			"16": {16: 0.5, 128: 1.1, 1024: 1.2},
			"32": {16: 1.2, 128: 1.1, 1024: 0.5},
		}[c.Str("sms")]
		if share == nil || c.Str("threads") != "256" {
			return 100e-6
		}
		return 100e-6 * share[p.Tokens]
	}}
	out := mustSweep(t, b, o, t.TempDir())
	var even []string
	for _, r := range out.Table.Rows {
		if r.Key.Routing == ep.Even {
			even = append(even, fmt.Sprintf("%d-%d sms=%s default=%v of %v", r.Lo, r.Hi, r.Config.Str("sms"), r.Default, r.Evidence.Tokens))
		}
	}
	want := []string{"16-45 sms=16 default=false of [16]", "46-362 sms= default=true of [128]", "363-1024 sms=32 default=false of [1024]"}
	if !slices.Equal(even, want) {
		t.Errorf("rows %q, want %q", even, want)
	}
}
