package reports_test

import (
	"math"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

// trial is one block of a hand-made run: what, how long, in which rounds.
type trial struct {
	routing string
	values  string // of kernel k
	role    record.Role
	stage   record.Stage
	round0  int
	micros  []float64
	status  ep.Status
}

func build(trials []trial) *reports.Loaded {
	p := ep.Problem{Op: ep.Dispatch, Mode: ep.Graph, Ranks: 8, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8,
		Tokens: 64, MaxTokens: 64, Dispatch: ep.BF16, Combine: ep.BF16}
	run := &record.Run{}
	var results []record.Result
	for i, tr := range trials {
		c, err := ep.ParseConfig("k:" + tr.values)
		if err != nil {
			panic(err)
		}
		if tr.status == "" {
			tr.status = ep.OK
		}
		r := record.Result{Schema: record.Schema, Seq: i, Problem: p, Routing: tr.routing, Seed: 1, Config: c, Role: tr.role, Stage: tr.stage,
			Round0: tr.round0, Status: tr.status, Clock: "chain"}
		if tr.status != ep.OK {
			r.Reason = "because"
		}
		for _, us := range tr.micros {
			r.Seconds = append(r.Seconds, []float64{us * 1e-6, us * 0.5e-6})
		}
		results = append(results, r)
	}
	return &reports.Loaded{Path: "hand", Run: run, Results: results, Cases: reports.Cases(run, results)}
}

func times(us float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = us
	}
	return out
}

const (
	def  = record.Default
	cand = record.Candidate
)

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name   string
		trials []trial
		want   string
		ties   int
		gain   float64
	}{
		{"the fastest wins", []trial{
			{"uniform", "sms=32", def, "screen", 0, times(20, 3), ""}, {"uniform", "sms=64", cand, "screen", 0, times(10, 3), ""},
			{"uniform", "sms=8", cand, "screen", 0, times(12, 3), ""}}, "k:sms=64", 1, 2},
		{"a tie goes to fewer SMs", []trial{
			{"uniform", "sms=32", def, "screen", 0, times(20, 3), ""}, {"uniform", "sms=64", cand, "screen", 0, times(10, 3), ""},
			{"uniform", "sms=8", cand, "screen", 0, times(10.05, 3), ""}}, "k:sms=8", 2, 20 / 10.05},
		{"the default stays in a tie", []trial{
			{"uniform", "sms=32", def, "screen", 0, times(10.05, 3), ""}, {"uniform", "sms=8", cand, "screen", 0, times(10, 3), ""}}, "k:sms=32", 2, 1},
		{"only what was confirmed can win", []trial{
			{"uniform", "sms=32", def, "screen", 0, times(20, 3), ""}, {"uniform", "sms=64", cand, "screen", 0, times(10, 3), ""},
			{"uniform", "sms=8", cand, "screen", 0, times(5, 3), ""},
			{"uniform", "sms=32", def, "confirm", 3, times(20, 9), ""}, {"uniform", "sms=64", cand, "confirm", 3, times(11, 9), ""}}, "k:sms=64", 1, 20.0 / 11},
		{"what failed once is out", []trial{
			{"uniform", "sms=32", def, "screen", 0, times(20, 3), ""}, {"uniform", "sms=64", cand, "screen", 0, times(10, 3), ""},
			{"uniform", "sms=64", cand, "recheck", 3, nil, ep.Mismatch}, {"uniform", "sms=8", cand, "screen", 0, times(12, 3), ""}}, "k:sms=8", 1, 20.0 / 12},
		{"drift is taken out", []trial{
			{"uniform", "sms=32", def, "screen", 0, times(20, 3), ""}, {"uniform", "sms=64", cand, "screen", 0, times(10, 3), ""},
			{"uniform", "sms=32", def, "screen", 3, times(10, 4), ""}, {"uniform", "sms=8", cand, "screen", 3, times(9, 4), ""}}, "k:sms=64", 1, 2},
	} {
		choice, ok := build(c.trials).Cases[0].Choose()
		if !ok || winner.Key != c.want || choice.Ties != c.ties || math.Abs(choice.Gain.Mid-c.gain) > 1e-9 {
			t.Errorf("%s: got %s of %d ties, gain %v; want %s of %d, gain %v", c.name, winner.Key, choice.Ties, choice.Gain.Mid, c.want, c.ties, c.gain)
		}
	}
}

// A round counts as long as its slowest rank.
func TestMedianIsOfTheSlowestRank(t *testing.T) {
	c := build([]trial{{"uniform", "sms=8", cand, "screen", 0, []float64{3, 1, 2}, ""}}).Cases[0]
	if got := c.Entries[0].Median.Mid; math.Abs(got-2e-6) > 1e-15 {
		t.Errorf("median %v, want 2 us", got)
	}
}

func TestOutcomeDecides(t *testing.T) {
	l := build([]trial{{"uniform", "sms=32", def, "screen", 0, times(20, 3), ""}, {"uniform", "sms=64", cand, "screen", 0, times(10, 3), ""},
		{"uniform", "sms=8", cand, "screen", 0, times(12, 3), ""}})
	l.Run.Searches = []record.Outcome{{Problem: l.Cases[0].Problem, Routing: "uniform", Config: l.Results[2].Config, Ties: 3, Gain: 1.5, GainLo: 1.4, GainHi: 1.6}}
	choice, _ := reports.Cases(l.Run, l.Results)[0].Choose()
	if winner.Key != "k:sms=8" || choice.Gain.Low != 1.4 || choice.Ties != 3 {
		t.Errorf("got %s, %+v", winner.Key, choice)
	}
}

func TestRegret(t *testing.T) {
	l := build([]trial{
		{"uniform", "sms=8", def, "screen", 0, times(10, 3), ""}, {"uniform", "sms=16", cand, "screen", 0, times(12, 3), ""}, {"uniform", "sms=32", cand, "screen", 0, times(20, 3), ""},
		{"zipf:1.0", "sms=8", def, "screen", 0, times(30, 3), ""}, {"zipf:1.0", "sms=16", cand, "screen", 0, times(22, 3), ""}, {"zipf:1.0", "sms=32", cand, "screen", 0, times(20, 3), ""},
	})
	r := reports.Regrets(l.Cases)[0]
	want := [][]float64{{0, 0.5}, {1, 0}, {0.2, 0.1}}
	for i, row := range want {
		for j, v := range row {
			if math.Abs(r.Loss[i][j]-v) > 1e-9 {
				t.Errorf("row %s under %s: %v, want %v", r.Shipped[i], r.Routings[j], r.Loss[i][j], v)
			}
		}
	}
	if r.Minimax != 2 || r.Keys[2] != "k:sms=16" || math.Abs(r.Worst(2)-0.2) > 1e-9 {
		t.Errorf("minimax is row %d, %s", r.Minimax, r.Keys[r.Minimax])
	}
}

func TestParetoAndEffects(t *testing.T) {
	l := build([]trial{
		{"uniform", "sms=8,threads=256", def, "screen", 0, times(40, 3), ""}, {"uniform", "sms=8,threads=512", cand, "screen", 0, times(50, 3), ""},
		{"uniform", "sms=16,threads=256", cand, "screen", 0, times(22, 3), ""}, {"uniform", "sms=32,threads=256", cand, "screen", 0, times(20, 3), ""},
		{"uniform", "sms=64,threads=256", cand, "screen", 0, times(21, 3), ""},
	})
	p := reports.ParetoOf(l.Cases[0])
	if len(p.Front) != 3 || p.Knee != 1 || p.Front[1].Cost.SMs != 16 {
		t.Errorf("front of %d, knee %d", len(p.Front), p.Knee)
	}
	effects := reports.Effects(l.Cases)
	if len(effects) != 6 {
		t.Fatalf("%d effects, want 4 of sms and 2 of threads", len(effects))
	}
	for _, e := range effects {
		switch {
		case e.Param == "sms" && e.Value == "8":
			if math.Abs(e.Best-2) > 1e-9 || math.Abs(e.Median-2.25) > 1e-9 || e.Wins != 0 || e.Points != 2 {
				t.Errorf("sms=8: %+v", e)
			}
		case e.Param == "threads" && e.Value == "256":
			if math.Abs(e.Best-1) > 1e-9 || e.Wins != 1 || e.Points != 4 {
				t.Errorf("threads=256: %+v", e)
			}
		}
	}
}

func TestFailuresAreGroupedAndOrdered(t *testing.T) {
	l := build([]trial{
		{"uniform", "sms=8", def, "screen", 0, times(40, 3), ""}, {"uniform", "sms=999", cand, "screen", 0, nil, ep.Illegal},
		{"uniform", "sms=16", cand, "screen", 0, nil, ep.Hang}, {"zipf:1.0", "sms=16", cand, "screen", 0, nil, ep.Hang},
		{"uniform", "sms=4", cand, "screen", 0, nil, ep.Mismatch},
	})
	f := reports.Failures(l.Cases)
	if len(f) != 3 || f[0].Status != ep.Mismatch || f[1].Status != ep.Hang || len(f[1].Cases) != 2 || f[2].Status != ep.Illegal {
		t.Errorf("got %+v", f)
	}
	table := reports.QuarantineTable(l.Cases, 1)
	if len(table.Rows) != 1 || len(table.Warnings) != 1 {
		t.Errorf("%d rows, warnings %v", len(table.Rows), table.Warnings)
	}
}

func TestWireAndFloor(t *testing.T) {
	if got := reports.Wire(ep.Machine{Arch: "sm_90", Link: "nvlink:nv18"}); got != 450 {
		t.Errorf("18 links of Hopper carry %v GB/s, want 450", got)
	}
	if got := reports.Wire(ep.Machine{Backend: "cpu", Link: "shared-memory"}); got != 0 {
		t.Errorf("a CPU has no such link: %v", got)
	}
	c := reports.Case{Load: &record.Workload{BytesWire: 450_000}}
	if got := c.FloorSeconds(450); math.Abs(got-1e-6) > 1e-15 {
		t.Errorf("floor %v, want 1 us", got)
	}
	if !math.IsNaN((&reports.Case{}).FloorSeconds(450)) {
		t.Error("no bytes, no floor")
	}
}

// TestSeconds: a run knows what its choices and its defaults took, and nothing of
// what it did not measure.
func TestSeconds(t *testing.T) {
	l, err := reports.Load("../testdata/runs/cpu-sweep")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range l.Run.Searches {
		k, n := table.KeyOf(x.Problem, ep.AllRoutings), x.Problem.Tokens
		choice, ok := l.Seconds(k, n, x.Routing, x.Config)
		dflt, both := l.Seconds(k, n, x.Routing, ep.Config{})
		if spelled, _ := l.Seconds(k, n, x.Routing, x.Default); !ok || !both || spelled != dflt || choice > dflt*1.1 {
			t.Errorf("%s under %s: choice %g, default %g, spelled %g", x.Problem.Key(), x.Routing, choice, dflt, spelled)
		}
		for name, found := range map[string]bool{
			"tokens":  second(l.Seconds(k, n+1, x.Routing, x.Config)),
			"routing": second(l.Seconds(k, n, "zipf:9", x.Config)),
			"config":  second(l.Seconds(k, n, x.Routing, x.Config.With("threads", "7"))),
		} {
			if found {
				t.Errorf("%s: %s of which nothing was measured has a time", x.Problem.Key(), name)
			}
		}
	}
}

func second(_ float64, ok bool) bool { return ok }
