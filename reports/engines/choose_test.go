package engines

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

func of(sms, send, recv string) string {
	return ep.Config{Kernel: normal}.With("sms", ep.Value(sms)).With("send", ep.Value(send)).With("recv", ep.Value(recv)).Key()
}

func parsed(t *testing.T, key string) ep.Config {
	t.Helper()
	c, err := ep.ParseConfig(key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// twoPoints returns two points and three configs.
func twoPoints(w1, w2 float64) (all []measuredPoint, a, b, c string) {
	a, b, c = of("20", "8", "256"), of("24", "8", "256"), of("28", "8", "256")
	return []measuredPoint{
		{tokens: 128, routing: "uniform", weight: w1, dispatch: map[string]float64{a: 12, b: 4}, combine: map[string]float64{a: 8, b: 6}},
		{tokens: 4096, routing: "uniform", weight: w2, dispatch: map[string]float64{a: 30, c: 35}, combine: map[string]float64{a: 10, c: 25}},
	}, a, b, c
}

func TestChooseByHand(t *testing.T) {
	for _, x := range []struct {
		w1, w2 float64
		sms    int
		regret []float64
	}{{1, 1, 24, []float64{0, math.NaN()}}, {1, 3, 20, []float64{1, 0}}, {3, 5.9, 24, []float64{0, math.NaN()}}, {3, 6.1, 20, []float64{1, 0}}} {
		all, _, _, _ := twoPoints(x.w1, x.w2)
		got, err := choose(all, 0, sameSMs)
		if err != nil || got.dispatch.Int("sms") != x.sms || got.combine.Int("sms") != x.sms || len(got.regret) != 2 {
			t.Fatalf("weights %g and %g: %+v, %v, want %d SMs", x.w1, x.w2, got, err, x.sms)
		}
		for i, want := range x.regret {
			if math.IsNaN(want) != math.IsNaN(got.regret[i]) || math.Abs(got.regret[i]-want) > 1e-12 {
				t.Errorf("weights %g and %g: regrets %v, want %v", x.w1, x.w2, got.regret, x.regret)
			}
		}
	}
	all, _, _, c := twoPoints(2, 1)
	at := []extremes{extremesAt(all[0], sameSMs), extremesAt(all[1], sameSMs)}
	if at[0] != (extremes{10, 20}) || at[1] != (extremes{40, 60}) {
		t.Errorf("extremes %v", at)
	}
	if sum, _ := judge(all, at, parsed(t, c), parsed(t, c)); sum != 2*1+1*0.5 {
		t.Errorf("c loses %g, want 2 x 1 + 1 x 0.5 = 2.5", sum)
	}
	never := parsed(t, of("99", "8", "256"))
	if sum, regret := judge(all, at, never, never); !math.IsInf(sum, 1) || !math.IsNaN(regret[0]) {
		t.Errorf("a pair that was never measured loses %g, %v", sum, regret)
	}
	if _, err := choose(all, 0, func(_, _ ep.Config) bool { return false }); !errors.Is(err, errNoPair) {
		t.Errorf("no pair fits: %v", err)
	}
}

// TestDefaultStaysWithinTheBand: the default loses 0.25 more than the best pair, averaged over the points.
func TestDefaultStaysWithinTheBand(t *testing.T) {
	for _, x := range []struct {
		band float64
		sms  int
	}{{0, 24}, {0.2499, 24}, {0.25, 20}, {1, 20}} {
		all, a, _, _ := twoPoints(1, 1)
		for i := range all {
			all[i].own.dispatch, all[i].own.combine = a, a
		}
		got, err := choose(all, x.band, sameSMs)
		if err != nil || got.dispatch.Int("sms") != x.sms {
			t.Errorf("band %g: %d SMs, want %d, %v", x.band, got.dispatch.Int("sms"), x.sms, err)
		}
	}
	all, _, b, c := twoPoints(1, 1)
	for i := range all {
		all[i].own.dispatch, all[i].own.combine = c, c
	}
	if got, _ := choose(all, 100, sameSMs); got.dispatch.Key() != b {
		t.Errorf("a default that was not measured everywhere stayed: %s", got.dispatch.Key())
	}
	if _, sum := defaults(all, []extremes{{10, 20}, {40, 60}}); !math.IsInf(sum, 1) {
		t.Errorf("the loss of a default that was not measured everywhere is %g, want infinity", sum)
	}
}

func TestLosses(t *testing.T) {
	all, a, _, _ := twoPoints(1, 1)
	p := configPair{parsed(t, a), parsed(t, a), []float64{0.125, math.NaN()}}
	want := []string{"128 tokens, uniform: 12.5 % slower than the best config there",
		"warning: dispatch recv=256,send=8,sms=20 with combine recv=256,send=8,sms=20 was not measured with 4096 tokens, uniform; its time there is taken as that of the slowest measured config; sweep --strategy grid measures every config"}
	if got := p.losses(all); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func threeCounts() (all []measuredPoint, wide, narrow shape) {
	wd, wc := of("24", "6", "256"), of("24", "4", "128")
	nd, nc := of("20", "8", "512"), of("20", "2", "64")
	both := func(wide, narrow float64) (map[string]float64, map[string]float64) {
		return map[string]float64{wd: wide, nd: narrow}, map[string]float64{wc: wide, nc: narrow}
	}
	for i, tokens := range []int{8, 64, 512} {
		p := measuredPoint{tokens: tokens, routing: "uniform", weight: float64(i + 1)}
		p.dispatch, p.combine = both(float64(10*(i+1)), float64(11*(i+1)))
		if tokens == 64 {
			p.dispatch, p.combine = map[string]float64{nd: 20, of("20", "16", "512"): 26}, map[string]float64{nc: 20}
		}
		all = append(all, p)
	}
	return all, shape{24, 256, 128}, shape{20, 512, 64}
}

// TestRowsOfAShape: the wide shape was not measured at 64 tokens, so its cost there is that of the slowest pair.
func TestRowsOfAShape(t *testing.T) {
	all, wide, narrow := threeCounts()
	got := rowsOf(all, narrow, 0)
	if want := []shimRow{{22, deepEPConfig{20, 8, 512}, deepEPConfig{20, 2, 64}}, {181, deepEPConfig{20, 8, 512}, deepEPConfig{20, 2, 64}}, {512, deepEPConfig{20, 8, 512}, deepEPConfig{20, 2, 64}}}; !slices.Equal(got.rows, want) {
		t.Errorf("rows %v, want %v", got.rows, want)
	}
	if math.Abs(got.cost-0.4) > 1e-9 {
		t.Errorf("cost %g, want 0.4", got.cost)
	}
	got = rowsOf(all, wide, 0)
	if want := []shimRow{{64, deepEPConfig{24, 6, 256}, deepEPConfig{24, 4, 128}}, {512, deepEPConfig{24, 6, 256}, deepEPConfig{24, 4, 128}}}; !slices.Equal(got.rows, want) {
		t.Errorf("rows %v, want %v", got.rows, want)
	}
	if math.Abs(got.cost-2*0.15) > 1e-9 || !strings.Contains(strings.Join(got.notes, "; "), "warning: 64 tokens, uniform: no config with 24 SMs and receive buffers of 256 and 128 was measured") {
		t.Errorf("cost %g, want 0.3; %q", got.cost, got.notes)
	}
	if none := rowsOf(all, shape{99, 1, 1}, 0); len(none.rows) != 0 || math.Abs(none.cost-(0.1*1+0.15*2+0.1*3)) > 1e-9 {
		t.Errorf("a shape that was never measured: %+v", none)
	}
	found := shapes(all)
	if !slices.Contains(found, wide) || !slices.Contains(found, narrow) || len(found) != 2 {
		t.Errorf("shapes %v", found)
	}
	for i := range all {
		all[i].own.dispatch, all[i].own.combine = of("24", "6", "256"), of("24", "4", "128")
	}
	if first := shapes(all)[0]; first != wide {
		t.Errorf("the first shape is %v, want the default's shape %v", first, wide)
	}
}

func distinct(kernel string) *reports.Loaded {
	run := &record.Run{Tool: "v9", Machine: ep.Machine{Backend: "deepep", Name: "NVIDIA  H100", SMs: 132},
		Kernels: []record.Kernel{{Name: kernel, Op: ep.Dispatch, Work: ep.Work{Library: "lib"}}, {Name: kernel, Op: ep.Combine, Work: ep.Work{Library: "lib"}}}}
	var results []record.Result
	add := func(op ep.Op, tokens int, us float64, values ...string) {
		c := ep.Config{Kernel: kernel}
		for i := 0; i < len(values); i += 2 {
			c = c.With(values[i], ep.Value(values[i+1]))
		}
		r := record.Result{Routing: "uniform", Seed: 1, Config: c, Role: record.Candidate, Stage: record.StageConfirm, Status: ep.OK, Clock: "chain",
			Problem: ep.Problem{Op: op, Mode: ep.Graph, Ranks: 8, Nodes: 2, Hidden: 4096, Experts: 128, TopK: 6, Tokens: tokens, MaxTokens: 4096, Dispatch: ep.FP8, Combine: ep.BF16}}
		for range 6 {
			r.Seconds = append(r.Seconds, []float64{us * 1e-6})
		}
		results = append(results, r)
	}
	add(ep.Dispatch, 128, 30, "sms", "24", "send", "6", "recv", "256", "threads", "512")
	add(ep.Dispatch, 128, 50, "sms", "24", "send", "7", "recv", "256", "threads", "1024")
	add(ep.Combine, 128, 70, "sms", "24", "send", "2", "recv", "128", "threads", "256")
	return &reports.Loaded{Path: "run", Run: run, Results: results, Cases: reports.Cases(run, results)}
}

func TestNothingIsSwapped(t *testing.T) {
	for _, c := range []struct{ format, kernel, want string }{
		{"sglang", normal, "\"normal_combine\": {\n    \"num_sms\": 24,\n    \"num_max_nvl_chunked_send_tokens\": 2,\n    \"num_max_nvl_chunked_recv_tokens\": 128\n  }"},
		{"sglang", normal, "\"normal_dispatch\": {\n    \"num_sms\": 24,\n    \"num_max_nvl_chunked_send_tokens\": 6,\n    \"num_max_nvl_chunked_recv_tokens\": 256\n  }"},
		{"deepep-shim", normal, "(128, (24, 6, 256), (24, 2, 128))"},
		{"flashinfer-env", oneSided, "export TLLM_MOE_A2A_DISPATCH_BLOCK_SIZE=512\nexport TLLM_MOE_A2A_COMBINE_BLOCK_SIZE=256\n"},
		{"megatron", normal, "--moe-deepep-num-sms 24\n"},
	} {
		e, _ := Find(c.format)
		out, err := e.Write(Input{Run: distinct(c.kernel)})
		if err != nil || !strings.Contains(string(out.Data), c.want) {
			t.Errorf("%s: %v\n%s\nwant %s", c.format, err, out.Data, c.want)
		}
	}
	if _, ok := Find("no such"); ok {
		t.Error("an exporter that does not exist was found")
	}
}

// TestAIConfiguratorRows: of two dispatch configs that differ only in chunk sizes, the faster config stays.
func TestAIConfiguratorRows(t *testing.T) {
	in := distinct("deepep-ll")
	table := a2aTable{keys: map[a2aRow]bool{}}
	for _, c := range in.Cases {
		table.add(in, c)
	}
	row := a2aRow{Framework: "epbench", Version: "v9", Device: "NVIDIA H100", OpName: "moe_a2a", KernelSource: "lib", CommBackend: "deepep_ll", CommDType: "default",
		Ranks: 8, Nodes: 2, Hidden: 4096, TopK: 6, Experts: 128, Tokens: 128, SMs: 24}
	dispatch, combine := row, row
	dispatch.Phase, combine.Phase = "dispatch", "combine"
	for i, want := range []struct {
		row a2aRow
		us  float64
	}{{dispatch, 30}, {combine, 70}} {
		if len(table.rows) != 2 {
			t.Fatalf("%d rows, want 2: %+v", len(table.rows), table.rows)
		}
		got := table.rows[i]
		if math.Abs(got.Transmit-want.us) > 1e-6 || got.Latency != got.Transmit || got.Notify != 0 {
			t.Errorf("times: transmit %g, notify %g, latency %g us, want %g, 0 and the same", got.Transmit, got.Notify, got.Latency, want.us)
		}
		if got.Transmit, got.Latency = 0, 0; got != want.row {
			t.Errorf("%+v, want %+v", got, want.row)
		}
	}
	out, err := writeAIConfigurator(Input{Run: in})
	if err != nil || !slices.Equal(out.Notes, []string{"2 rows"}) {
		t.Errorf("notes %q, %v", out.Notes, err)
	}
	skewed := distinct("deepep-ll")
	for i := range skewed.Results {
		skewed.Results[i].Routing = "zipf:1"
	}
	skewed.Cases = append(reports.Cases(skewed.Run, skewed.Results), distinct("deepep-ll").Cases...)
	if out, err = writeAIConfigurator(Input{Run: skewed}); err != nil || !slices.Equal(out.Notes, []string{"2 rows", "2 cases left out: the table has no column for op pair or for routings other than uniform"}) {
		t.Errorf("notes %q, %v", out.Notes, err)
	}
	plain := distinct("deepep-ll")
	for i := range plain.Results {
		plain.Results[i].Problem.Dispatch = ep.BF16
	}
	plain.Cases = reports.Cases(plain.Run, plain.Results)
	if out, err = writeAIConfigurator(Input{Run: plain}); err != nil || len(out.Notes) != 2 || out.Notes[0] != "1 rows" || !strings.HasPrefix(out.Notes[1], "2 configs left out: aiconfigurator's rows of DeepEP have one dtype") {
		t.Errorf("a BF16 dispatch: notes %q, %v; want one row, of the combine, and a note on the dispatch", out.Notes, err)
	}
}
