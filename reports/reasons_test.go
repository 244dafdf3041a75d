package reports_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/text"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// overRun returns a bench run with one case for each reason.
func overRun(reasons ...string) *record.Run {
	over, _ := ep.ParseConfig("d:sms=8")
	run := &record.Run{}
	for i, r := range reasons {
		p := besideProblem().AtTokens(1<<i, 1<<i)
		run.Searches = append(run.Searches, record.Search{Problem: p, Routing: "uniform", Reference: r, Decision: record.Decision{Config: over.With("sms", "64"), Default: over}})
	}
	return run
}

// TestGatherReasons: the cases of the most frequent reason are counted. The other cases are named.
func TestGatherReasons(t *testing.T) {
	of := func(s *record.Search) string { return s.Reference }
	for _, c := range []struct{ reasons, want []string }{
		{[]string{"exact", "exact"}, []string{"dispatch, 1 token, uniform, beside copy; dispatch, 2 tokens, uniform, beside copy: exact."}},
		{[]string{"exact", "exact", "exact", "exact"}, []string{"All 4 cases: exact."}},
		{[]string{"exact", "halves", "exact", "exact", "exact"}, []string{"dispatch, 2 tokens, uniform, beside copy: halves.", "The other 4 cases: exact."}},
		{[]string{"noisy", "noisy", "", "noisy", "noisy"}, []string{"dispatch, 1 token, uniform, beside copy; dispatch, 2 tokens, uniform, beside copy; " +
			"dispatch, 8 tokens, uniform, beside copy; dispatch, 16 tokens, uniform, beside copy: noisy."}},
		{nil, nil},
	} {
		if got := reports.GatherReasons(overRun(c.reasons...).Searches, of); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.reasons, got, c.want)
		}
	}
}

func TestMeasuredAgainstIsShort(t *testing.T) {
	table := reports.Measured(overRun("table: exact", "table: exact", "table: halves", "table: exact", "table: exact"))
	column := slices.IndexFunc(table.Columns, func(c reports.Column) bool { return c.Name == "against" })
	if column < 0 || table.Rows[0][column].Value != "d:sms=8" {
		t.Fatalf("no column names the config that the others are compared with: %+v", table.Columns)
	}
	spelled, reasons := 0, 0
	for _, n := range table.Notes {
		if strings.HasSuffix(n, ": d:sms=8") {
			spelled++
		}
		if strings.HasPrefix(n, "--over: ") {
			reasons++
		}
	}
	if spelled != 1 || reasons != 2 {
		t.Errorf("the notes spell the config %d times and give %d reasons, want once and 2: %q", spelled, reasons, table.Notes)
	}
	if plain := reports.Measured(overRun("", "")); slices.ContainsFunc(plain.Columns, func(c reports.Column) bool { return c.Name == "against" }) {
		t.Error("a run against the default has the column \"against\"")
	}
}

func TestCostsFitATerminal(t *testing.T) {
	run := overRun("table: exact", "table: exact")
	for i := range run.Searches {
		costs := func(us float64) record.Beside {
			one := record.Interval{Mid: us * 1e-6, Low: 0.9 * us * 1e-6, High: 1.1 * us * 1e-6}
			return record.Beside{Call: one, CallIn: one, Product: one, ProductIn: one, Both: one, Cost: one, Slowdown: one, Amount: "x"}
		}
		config := costs(1000 + float64(i))
		run.Searches[i].Problem.Beside = []string{"gemm:16,4096,7168,fp8,128", "gemm:256,4096,7168,fp8,128"}[i]
		run.Searches[i].Beside = &record.BesidePair{Config: config, Default: costs(2000), Saved: &config.Cost}
	}
	table, _ := reports.BesideTables([]*record.Run{run})
	var b strings.Builder
	if err := text.Renderer(80)(&b, table); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for _, column := range []string{"tokens", "config", "call alone", "call beside", " cost ", "low", "high"} {
		if !strings.Contains(lines[1], column) {
			t.Errorf("no %q in %q", column, lines[1])
		}
	}
	if !strings.HasPrefix(lines[7], "dispatch") || strings.HasPrefix(lines[8], "dispatch") {
		t.Errorf("want 4 lines for 4 rows, got\n%s", b.String())
	}
}
