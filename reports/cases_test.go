package reports_test

import (
	"math"
	"strings"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

type trial struct {
	routing string
	values  string // the config's values; its kernel is "k"
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
		r := record.Result{Schema: record.Schema, Seq: i, Problem: p, Routing: tr.routing, Seed: 1, Config: c, Cost: ep.Cost{SMs: c.Int("sms"), Threads: c.Int("threads")}, Role: tr.role, Stage: tr.stage,
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

func TestFastestSoFar(t *testing.T) {
	for _, c := range []struct {
		name   string
		trials []trial
		want   string
	}{
		{"the fastest", []trial{
			{"uniform", "sms=32", def, "screen", 0, times(20, 3), ""}, {"uniform", "sms=64", cand, "screen", 0, times(10, 3), ""},
			{"uniform", "sms=8", cand, "screen", 0, times(12, 3), ""}}, "k:sms=64"},
		{"a confirmed config precedes a faster one of the screening", []trial{
			{"uniform", "sms=32", def, "screen", 0, times(20, 3), ""}, {"uniform", "sms=64", cand, "screen", 0, times(10, 3), ""},
			{"uniform", "sms=8", cand, "screen", 0, times(5, 3), ""},
			{"uniform", "sms=32", def, "confirm", 3, times(20, 9), ""}, {"uniform", "sms=64", cand, "confirm", 3, times(11, 9), ""}}, "k:sms=64"},
		{"a config that failed once cannot win", []trial{
			{"uniform", "sms=32", def, "screen", 0, times(20, 3), ""}, {"uniform", "sms=64", cand, "screen", 0, times(10, 3), ""},
			{"uniform", "sms=64", cand, "recheck", 3, nil, ep.Mismatch}, {"uniform", "sms=8", cand, "screen", 0, times(12, 3), ""}}, "k:sms=8"},
		{"drift between blocks is removed", []trial{
			{"uniform", "sms=32", def, "screen", 0, times(20, 3), ""}, {"uniform", "sms=64", cand, "screen", 0, times(10, 3), ""},
			{"uniform", "sms=32", def, "screen", 3, times(10, 4), ""}, {"uniform", "sms=8", cand, "screen", 3, times(9, 4), ""}}, "k:sms=64"},
		{"nothing has times", []trial{{"uniform", "sms=32", def, "screen", 0, nil, ep.Crash}}, ""},
	} {
		got := ""
		if w := build(c.trials).Cases[0].Winner(); w != nil {
			got = w.Key
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestMedianIsOfTheSlowestRank(t *testing.T) {
	c := build([]trial{{"uniform", "sms=8", cand, "screen", 0, []float64{3, 1, 2}, ""}}).Cases[0]
	if got := c.Entries[0].Median.Mid; math.Abs(got-2e-6) > 1e-15 {
		t.Errorf("median %v, want 2 us", got)
	}
}

func TestTwinOfManyBlocks(t *testing.T) {
	c := build([]trial{{"uniform", "sms=8", def, "aa", 0, times(4, 3), ""}, {"uniform", "sms=8", record.Twin, "aa", 0, times(4, 3), ""},
		{"uniform", "sms=8", def, "aa", 3, times(4, 3), ""}, {"uniform", "sms=8", record.Twin, "aa", 3, times(5, 3), ""},
		{"uniform", "sms=8", def, "screen", 6, times(3, 3), ""}}).Cases[0]
	for _, e := range c.Entries {
		if want := map[record.Role]float64{def: 3e-6, record.Twin: 4.5e-6}[e.Role]; math.Abs(e.Median.Mid-want) > 1e-12 {
			t.Errorf("%s: %v, want %v", e.Role, e.Median.Mid, want)
		}
	}
}

// TestDecisionDecides: the winner is the config that run.json names, even if the log shows a faster config.
func TestDecisionDecides(t *testing.T) {
	l := build([]trial{{"uniform", "sms=32", def, "screen", 0, times(20, 3), ""}, {"uniform", "sms=64", cand, "screen", 0, times(10, 3), ""},
		{"uniform", "sms=8", cand, "screen", 0, times(12, 3), ""}})
	gain := record.Interval{Mid: 1.5, Low: 1.4, High: 1.6}
	defaultConfig, won := l.Results[0].Config, l.Results[2].Config
	l.Run.Searches = []record.Search{{Problem: l.Cases[0].Problem, Routing: "uniform", Ties: 3, Times: record.Times{Median: 13e-6},
		Decision: record.Decision{Config: won, Default: defaultConfig, Gain: gain, Challenger: won, ChallengerGain: gain, Verdict: record.Faster}}}
	l = reload(l)
	if c := l.Cases[0]; c.Winner().Key != "k:sms=8" || c.Winner().Median.Mid != 13e-6 {
		t.Errorf("got %s, median %v", c.Winner().Key, c.Winner().Median)
	}
	line := map[string]any{}
	table := reports.Winners(l.Run)
	for i, c := range table.Columns {
		line[c.Name] = table.Rows[0][i].Value
	}
	for name, want := range map[string]any{"config": "k:sms=8", "verdict": "faster", "median": 13.0, "gain": 1.5, "low": 1.4, "high": 1.6, "ties": 3} {
		if line[name] != want {
			t.Errorf("%s: %v, want %v", name, line[name], want)
		}
	}
}

func TestRegretTable(t *testing.T) {
	nan := record.Loss(math.NaN())
	p := build([]trial{{"uniform", "sms=8", def, "screen", 0, times(10, 3), ""}}).Cases[0].Problem
	config := func(sms ep.Value) ep.Config { return ep.Config{Kernel: "k", Values: map[string]ep.Value{"sms": sms}} }
	table := reports.RegretTable(&record.Run{
		Searches: []record.Search{{Problem: p, Decision: record.Decision{Default: config("8")}}},
		Regrets: []record.Regret{{Problem: p, Routings: []string{"uniform", "zipf:1.0"}, Rows: []record.RegretRow{
			{Routing: "uniform", Config: config("8"), Loss: []record.Loss{0, nan}, Worst: nan},
			{Routing: "zipf:1.0", Config: config("32"), Loss: []record.Loss{1, 0}, Worst: 1},
			{Routing: "all", Config: config("16"), Loss: []record.Loss{0.2, 0.1}, Worst: 0.2},
		}}},
	})
	for i, want := range []string{"dispatch uniform 64 vavz default 0.0 - -", "dispatch zipf:1.0 64 mx7a sms=32 100.0 0.0 100.0", "dispatch all 64 2bg0 sms=16 20.0 10.0 20.0"} {
		var got []string
		for _, c := range table.Rows[i] {
			got = append(got, c.Text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("row %d: %q, want %q", i, strings.Join(got, " "), want)
		}
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
		t.Errorf("the front has %d points, want 3; the knee is point %d, want 1", len(p.Front), p.Knee)
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
	table := reports.FailedTable(l.Cases, 1)
	if len(table.Rows) != 1 || len(table.Warnings) != 1 {
		t.Errorf("%d rows, warnings %v", len(table.Rows), table.Warnings)
	}
}

func TestWireLimit(t *testing.T) {
	if got := reports.Wire(ep.Machine{Arch: "sm_90", Link: "nvlink:nv18"}); got != 450 {
		t.Errorf("18 links of Hopper carry %v GB/s, want 450", got)
	}
	if got := reports.Wire(ep.Machine{Backend: "cpu", Link: "shared-memory"}); got != 0 {
		t.Errorf("a CPU has no such link: %v", got)
	}
	c := reports.Case{Load: &record.Workload{BytesWire: 450_000}}
	if got := c.WireLimit(450); math.Abs(got-1e-6) > 1e-15 {
		t.Errorf("wire limit %v, want 1 us", got)
	}
	if !math.IsNaN((&reports.Case{}).WireLimit(450)) {
		t.Error("no bytes, but a wire limit")
	}
}

func TestSeconds(t *testing.T) {
	l, err := reports.Load("../testdata/runs/cpu-sweep")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range l.Run.Searches {
		k, n := table.KeyOf(x.Problem, ep.AllRoutings), x.Problem.Tokens
		won, ok := l.Seconds(k, n, x.Routing, x.Decision.Config)
		defaultConfig, both := l.Seconds(k, n, x.Routing, ep.Config{})
		if spelled, _ := l.Seconds(k, n, x.Routing, x.Decision.Default); !ok || !both || spelled != defaultConfig || won > defaultConfig*1.1 {
			t.Errorf("%s under %s: winner %g, default %g, spelled %g", x.Problem.Key(), x.Routing, won, defaultConfig, spelled)
		}
		for name, found := range map[string]bool{
			"tokens":  second(l.Seconds(k, n+1, x.Routing, x.Decision.Config)),
			"routing": second(l.Seconds(k, n, "zipf:9", x.Decision.Config)),
			"config":  second(l.Seconds(k, n, x.Routing, x.Decision.Config.With("threads", "7"))),
		} {
			if found {
				t.Errorf("%s: a %s that was not measured has a time", x.Problem.Key(), name)
			}
		}
	}
}

func second(_ float64, ok bool) bool { return ok }
