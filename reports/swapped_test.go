package reports

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// swapCase returns a recorded search. The default takes 10 us. `times` has the times of the other configs in us: 0
// means not measured, -1 means failed.
func swapCase(tokens, won int, times ...float64) *record.Recording {
	config := func(i int) ep.Config {
		return ep.Config{Kernel: "k", Values: map[string]ep.Value{"threads": ep.Value(strconv.Itoa(64 << i))}}
	}
	all := append([]float64{10}, times...)
	r := &record.Recording{Machine: ep.Machine{Name: "GPU"}}
	for i, us := range all {
		p := record.Point{Config: config(i), Role: record.Candidate, Status: ep.OK}
		if us < 0 {
			p.Status = ep.Mismatch
		}
		if us > 0 {
			stretch := []float64{0}
			for k := range 20 { // drift, and noise of 0.2 %
				stretch = append(stretch, math.Round(us*1e4*(1+0.1*float64(k))*(1+0.002*float64((i+k*7)%3-1))))
			}
			p.Rounds = [][]float64{stretch}
		}
		r.Points = append(r.Points, p)
	}
	r.Points[0].Role = record.Default
	r.Search = record.Search{Problem: ep.Problem{Op: ep.Dispatch, Mode: ep.Graph, Ranks: 2, Nodes: 1, Hidden: 512, Experts: 8, TopK: 2, Tokens: tokens, MaxTokens: 64, Dispatch: ep.BF16, Combine: ep.BF16}, Routing: "uniform"}
	gain := 10 / all[won]
	r.Search.Decision = record.Decision{Config: config(won), Default: config(0), Gain: record.Interval{Mid: gain, Low: 0.999 * gain, High: 1.001 * gain}, Band: record.Band{Policy: 0.01}, Rounds: 10}
	return r
}

func TestSwap(t *testing.T) {
	h200 := []*record.Recording{
		swapCase(1, 1, 8, 9),    // the same winner
		swapCase(2, 1, 8, 9),    // another winner
		swapCase(4, 2, 11, 9),   // slower than the default
		swapCase(8, 1, 8),       // fails
		swapCase(16, 2, 9, 8),   // not measured
		swapCase(32, 0, 11, 12), // the default won
		swapCase(64, 1, 8, 9),   // too noisy
	}
	h100 := []*record.Recording{
		swapCase(1, 1, 5, 6), swapCase(2, 2, 8.8, 8), swapCase(4, 1, 8, 12), swapCase(8, 0, -1), swapCase(16, 1, 8), swapCase(32, 1, 8, 9),
	}
	noisy := swapCase(64, 1, 8, 9)
	noisy.Search.Decision.Cause = record.Noisy
	got := Swap(h200, append(h100, noisy))
	if len(got) != 6 {
		t.Fatalf("%d cases, want 6: the search of the seventh is too noisy", len(got))
	}
	for i, want := range []struct {
		gain, loss float64
		verdict    record.Verdict
		reason     string
	}{
		{2, 1, record.Faster, ""},
		{10 / 8.8, 1.1, record.Faster, ""},
		{10. / 12, 1.5, record.Slower, ""},
		{math.NaN(), math.NaN(), record.Undecided, "mismatch"},
		{math.NaN(), math.NaN(), record.Undecided, "not measured on the other machine"},
		{1, 1.25, record.Same, ""},
	} {
		c := got[i]
		near := func(have record.Interval, mid float64) bool {
			return math.IsNaN(mid) && math.IsNaN(have.Mid) || math.Abs(have.Mid/mid-1) < 0.005 && have.Low <= have.Mid && have.Mid <= have.High && have.High/have.Low < 1.02
		}
		if !near(c.Gain, want.gain) || !near(c.Loss, want.loss) || c.Verdict != want.verdict || !strings.Contains(c.Reason, want.reason) || (want.reason == "") != (c.Reason == "") {
			t.Errorf("%d tokens: gain %v, loss %v, %s, %q; want %+v", c.Problem.Tokens, c.Gain, c.Loss, c.Verdict, c.Reason, want)
		}
	}
	table, slower := SwappedTable(got, "h200", "h100")
	if slower != 1 || !strings.Contains(strings.Join(table.Notes, "\n"), "6 cases, the same winner in 1 of them; 4 cases were measured on both machines") {
		t.Errorf("%d configs are slower, want 1; notes %q", slower, table.Notes)
	}
	marked := 0
	for _, row := range table.Rows {
		for _, c := range row {
			if c.Mark == Bad {
				marked++
			}
		}
	}
	if marked != 1 {
		t.Errorf("%d cells are marked as bad, want 1", marked)
	}
}

// TestSwapAsSearched: a combine may be judged by a search with another dispatch dtype.
func TestSwapAsSearched(t *testing.T) {
	combine := func(d ep.DType, as ep.DType, won int, times ...float64) *record.Recording {
		r := swapCase(1, won, times...)
		r.Search.Problem.Op, r.Search.Problem.Dispatch, r.Search.SiblingDType = ep.Combine, d, as
		return r
	}
	mine := []*record.Recording{combine(ep.FP8, "", 2, 9, 8)}
	for name, c := range map[string]struct {
		on     []*record.Recording
		reason string
	}{
		"searched with bf16":      {[]*record.Recording{combine(ep.BF16, "", 1, 8, 8.8), combine(ep.FP8, ep.BF16, 1, 8)}, ""},
		"searched, without times": {[]*record.Recording{combine(ep.FP8, "", 1, 8)}, "not measured on the other machine"},
		"search was left out":     {[]*record.Recording{combine(ep.FP8, ep.BF16, 1, 8)}, "not measured on the other machine"},
	} {
		got := Swap(mine, c.on)
		if len(got) != 1 || got[0].Reason != c.reason || got[0].Problem != mine[0].Search.Problem || c.reason == "" && math.Abs(got[0].Loss.Mid-1.1) > 0.005 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
