package curate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

func TestLint(t *testing.T) {
	good := func() *table.Table { return sealed(row(ep.Even, 0, 64, 128), row(ep.AllRoutings, 0, 64, 128)) }
	if f := Lint(good(), nil, 0.01); len(f) > 0 {
		t.Fatalf("a good table has findings: %v", f)
	}
	bounded := good()
	bounded.Header.MaxSMs = 24
	for i := range bounded.Rows {
		e := &bounded.Rows[i].Evidence
		e.Gain, e.GainLow, e.GainHigh = 1, 1, 1 // the row has the default's config
	}
	if f := Lint(bounded, nil, 0.01); len(f) > 0 {
		t.Errorf("a bounded table that keeps the default has findings: %v", f)
	}
	refuse := func(_ ep.Machine, p ep.Problem, c ep.Config) error {
		if c.Int("threads") > 1024 {
			return fmt.Errorf("threads: %d is above 1024", c.Int("threads"))
		}
		if c.Int("threads") == 1024 && p.Tokens >= 64 {
			return fmt.Errorf("threads: too many for %d tokens", p.Tokens)
		}
		return nil
	}
	uniform := []string{"uniform"}
	first := func(f func(*table.Row)) func(*table.Table) { return func(t *table.Table) { f(&t.Rows[0]) } }
	for _, c := range []struct {
		name string
		edit func(*table.Table)
		want []string // beginnings of the findings
	}{
		{"no win", first(func(r *table.Row) { r.Evidence.GainLow, r.Evidence.Routings = 0.99, uniform }), []string{"0 error gain: gain 1.100 [0.983, 1.148] over sessions does not exclude 1"}},
		{"just no win", first(func(r *table.Row) { r.Evidence.GainLow, r.Evidence.Routings = 1, uniform }), []string{"0 error gain: gain 1.100 [0.992, 1.148] over sessions does not exclude 1"}},
		{"two routings of a class, no win under one", first(func(r *table.Row) { r.Evidence.GainLow = 0.99 }), []string{"0 warning worst: under its worst routing the gain is 1.100 [0.990, 1.120]"}},
		{"all routings, loses somewhere", func(t *table.Table) { t.Rows[1].Evidence.GainLow = 1 }, []string{"1 warning worst: under its worst routing the gain is 1.100 [1.000, 1.120]"}},
		{"noise", func(t *table.Table) { t.Header.AA = 0.2 }, []string{"-1 error aa: ", "0 warning spread: gain 1.100 is within the run's largest A/A spread of 20.00 %", "1 warning spread: "}},
		{"loud machine", func(t *table.Table) { t.Header.AA = 0.02 }, []string{"-1 error aa: the default differs from itself by 2.00 %, more than the band of 1.00 %"}},
		{"as loud as the band", func(t *table.Table) { t.Header.AA = 0.01 }, nil},
		{"as fast as the spread", func(t *table.Table) {
			t.Header.AA = 0.0078125
			e := &t.Rows[0].Evidence
			e.Gain, e.GainLow = 1.0078125, 1.0001
		}, nil},
		{"the default needs no gain", first(func(r *table.Row) { r.Default, r.Evidence.GainLow, r.Evidence.Gain = true, 0.9, 1 }), nil},
		{"a small share", first(func(r *table.Row) { r.Evidence.Complete, r.Evidence.Legal = false, 401 }), []string{"-1 warning share: for 1 of 2 rows less than 10 % of the legal configs were tried (for one of them 40 of 401 configs)"}},
		{"a share", first(func(r *table.Row) { r.Evidence.Complete, r.Evidence.Legal = false, 400 }), nil},
		{"whole", first(func(r *table.Row) { r.Evidence.Legal = 401 }), nil},
		{"crossed above", first(func(r *table.Row) { r.Evidence.GainHigh = 1.09 }), []string{"0 error interval: gain 1.1000 lies outside its interval [1.0800, 1.0900]"}},
		{"crossed below", first(func(r *table.Row) { r.Evidence.GainLow = 1.11 }), []string{"0 error interval: gain 1.1000 lies outside its interval [1.1100, 1.1200]"}},
		{"no width", first(func(r *table.Row) {
			e := &r.Evidence
			e.GainLow, e.GainHigh, e.P10, e.P90, e.Ties, e.Rounds = e.Gain, e.Gain, e.Median, e.Median, e.Tried, minRounds
		}), nil},
		{"median below", first(func(r *table.Row) { r.Evidence.P10 = 26e-6 }), []string{"0 error interval: median 2.5e-05 lies outside p10 2.6e-05 and p90 2.7e-05"}},
		{"median above", first(func(r *table.Row) { r.Evidence.P90 = 24e-6 }), []string{"0 error interval: median"}},
		{"ties", first(func(r *table.Row) { r.Evidence.Ties = 41 }), []string{"0 error interval: 41 ties among 40 configs tried"}},
		{"no rounds", first(func(r *table.Row) { r.Evidence.Rounds = 0 }), []string{"0 error measured: rounds, time or clock is missing"}},
		{"no time", first(func(r *table.Row) { r.Evidence.Median, r.Evidence.P10 = 0, 0 }), []string{"0 error measured: rounds, time or clock is missing"}},
		{"no clock", first(func(r *table.Row) { r.Evidence.Clock = "" }), []string{"0 error measured: rounds, time or clock is missing"}},
		{"elsewhere", first(func(r *table.Row) { r.Evidence.Tokens = []int{65} }), []string{"0 error measured: no token count of 0 to 64 was measured", "0 warning ends: the row's end at 0 tokens is more than a factor of 4 from the nearest measured count: sweep --tokens 0", "0 warning timed: it was timed at 65 tokens, outside its token interval"}},
		{"an end half way", first(func(r *table.Row) { r.Evidence.Tokens = []int{0, 16} }), nil},
		{"a far end", first(func(r *table.Row) { r.Evidence.Tokens = []int{0, 15} }), []string{"0 warning ends: the row's end at 64 tokens"}},
		{"the other end", first(func(r *table.Row) { r.Evidence.Tokens = []int{64} }), []string{"0 warning ends: the row's end at 0 tokens"}},
		{"few", first(func(r *table.Row) { r.Evidence.Rounds = 9 }), []string{"0 warning rounds: 9 rounds; with fewer than 10"}},
		{"one routing", func(t *table.Table) { t.Rows[1].Evidence.Routings = []string{"uniform"} }, []string{"1 error routings: the row serves every routing but was measured under 1"}},
		{"one routing of a class", first(func(r *table.Row) { r.Evidence.Routings = []string{"uniform"} }), nil},
		{"incomplete", first(func(r *table.Row) { r.Evidence.Complete = false }), nil},
		{"hardly tried", first(func(r *table.Row) { r.Evidence.Complete, r.Evidence.Tried, r.Evidence.Ties = false, 9, 0 }), []string{"0 warning tried: 9 configs tried"}},
		{"tiny and whole", first(func(r *table.Row) { r.Evidence.Tried, r.Evidence.Ties = 9, 0 }), nil},
		{"illegal", first(func(r *table.Row) { r.Config = r.Config.With("threads", "2048") }), []string{"0 error legal: at 0 tokens: threads: 2048 is above 1024"}},
		{"illegal at its end", first(func(r *table.Row) { r.Config = r.Config.With("threads", "1024") }), []string{"0 error legal: at 64 tokens: threads: too many for 64 tokens"}},
		{"edited", func(t *table.Table) { t.Header.Edited = true }, []string{"-1 error edited: "}},
		{"no abi", func(t *table.Table) { t.Header.ABI = "" }, []string{"-1 warning abi: "}},
		{"no row for all routings", func(t *table.Table) { t.Rows = []table.Row{row(ep.Skewed, 0, 64, 128), row(ep.Skewed, 65, 65, 128)} }, []string{"0 warning hole: there is no row of routing class all or even"}},
		{"hole", func(t *table.Table) {
			t.Rows = []table.Row{row(ep.AllRoutings, 0, 8, 128), row(ep.AllRoutings, 10, 64, 128)}
		}, []string{"1 warning hole: tokens 9 to 9 before this row have no row"}},
		{"no hole", func(t *table.Table) {
			t.Rows = []table.Row{row(ep.AllRoutings, 0, 8, 128), row(ep.AllRoutings, 9, 64, 128)}
		}, nil},
	} {
		tab := good()
		c.edit(tab)
		var got []string
		for _, f := range Lint(tab, refuse, 0.01) {
			got = append(got, fmt.Sprintf("%d %s %s: %s", f.Row, f.Severity, f.Rule, f.Text))
		}
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
