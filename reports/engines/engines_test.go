package engines

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/testfile"
)

// deepEPRun returns a run whose fastest pair has 20 SMs at 128 tokens and 24 SMs at 4,096 tokens.
func deepEPRun() *reports.Loaded {
	run := &record.Run{Tool: "test", Machine: ep.Machine{Backend: "deepep", Name: "GPU", SMs: 132},
		Kernels: []record.Kernel{{Name: normal, Op: ep.Dispatch, Work: ep.Work{Library: "deepep"}}, {Name: normal, Op: ep.Combine, Work: ep.Work{Library: "deepep"}}}}
	us := map[string]float64{ // keys: op, tokens, sms, send
		"dispatch 128 20 8": 20, "dispatch 128 20 24": 25, "dispatch 128 24 8": 30, "dispatch 128 24 24": 19,
		"combine 128 20 8": 20, "combine 128 20 24": 26, "combine 128 24 8": 30, "combine 128 24 24": 31,
		"dispatch 4096 20 8": 400, "dispatch 4096 20 24": 390, "dispatch 4096 24 8": 300, "dispatch 4096 24 24": 350,
		"combine 4096 20 8": 400, "combine 4096 20 24": 410, "combine 4096 24 8": 310, "combine 4096 24 24": 300,
	}
	var results []record.Result
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
		for _, tokens := range []int{128, 4096} {
			for _, sms := range []int{20, 24} {
				for _, send := range []int{8, 24} {
					c := ep.Config{Kernel: normal}.With("sms", ep.Value(fmt.Sprint(sms))).With("send", ep.Value(fmt.Sprint(send))).With("recv", "256")
					r := record.Result{Routing: "uniform", Seed: 1, Config: c, Role: record.Candidate, Stage: record.StageConfirm, Status: ep.OK, Clock: "chain",
						Problem: ep.Problem{Op: op, Mode: ep.Graph, Ranks: 2, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8, Tokens: tokens, MaxTokens: 4096, Dispatch: ep.BF16, Combine: ep.BF16}}
					for range 6 {
						r.Seconds = append(r.Seconds, []float64{us[fmt.Sprintf("%s %d %d %d", op, tokens, sms, send)] * 1e-6})
					}
					results = append(results, r)
				}
			}
		}
	}
	return &reports.Loaded{Path: "run", Run: run, Results: results, Cases: reports.Cases(run, results)}
}

func deepEPRunAs(kernel, library string, dtype ep.DType) *reports.Loaded {
	l := deepEPRun()
	for i := range l.Results {
		l.Results[i].Config.Kernel, l.Results[i].Problem.Dispatch = kernel, dtype
	}
	for i := range l.Run.Kernels {
		l.Run.Kernels[i].Name, l.Run.Kernels[i].Work.Library = kernel, library
	}
	l.Cases = reports.Cases(l.Run, l.Results)
	return l
}

func write(t *testing.T, format string, mix map[int]float64) Output {
	t.Helper()
	e, ok := Find(format)
	if !ok {
		t.Fatalf("no format %s", format)
	}
	out, err := e.Write(Input{deepEPRun(), mix})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSGLang(t *testing.T) {
	for _, c := range []struct {
		mix  map[int]float64
		sms  int
		note string
	}{
		{nil, 24, "128 tokens, uniform: 22.5 % slower"},                        // (19+30)/(20+20) = 1.225
		{map[int]float64{128: 3, 4096: 1}, 20, "4096 tokens, uniform: 33.3 %"}, // (400+400)/(300+300) = 1.333
		{map[int]float64{128: 1}, 20, "128 tokens, uniform: 0.0 %"},
	} {
		out := write(t, "sglang", c.mix)
		got := testfile.JSON[map[string]map[string]int](t, out.Data)
		d, k := got["normal_dispatch"], got["normal_combine"]
		if len(got) != 2 || len(d) != 3 || d["num_sms"] != c.sms || k["num_sms"] != c.sms || d["num_max_nvl_chunked_recv_tokens"] != 256 {
			t.Errorf("mix %v: %s", c.mix, out.Data)
		}
		if notes := strings.Join(out.Notes, "\n"); !strings.Contains(notes, c.note) {
			t.Errorf("mix %v: notes %q, want %q", c.mix, notes, c.note)
		}
	}
	if out := write(t, "megatron", map[int]float64{4096: 1}); string(out.Data) != "--moe-deepep-num-sms 24\n" {
		t.Errorf("megatron: %s", out.Data)
	}
}

func TestWinnersOnly(t *testing.T) {
	l := deepEPRun()
	l.Results = slices.DeleteFunc(l.Results, func(r record.Result) bool {
		defaultConfig, small := r.Config.Int("sms") == 20 && r.Config.Int("send") == 8, r.Problem.Tokens == 128
		return !defaultConfig && (small || r.Config.Int("sms") == 20)
	})
	l.Cases = reports.Cases(l.Run, l.Results)
	e, _ := Find("sglang")
	out, err := e.Write(Input{Run: l})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out.Data), `"num_sms": 24`) {
		t.Errorf("%s", out.Data)
	}
	if notes := strings.Join(out.Notes, "\n"); !strings.Contains(notes, "was not measured with 128 tokens, uniform; its time there is taken as that of the slowest measured config") {
		t.Error(notes)
	}
}

// TestDefaultStays: the default that the search kept is exported, although another config was faster.
func TestDefaultStays(t *testing.T) {
	l := deepEPRun()
	for i, r := range l.Results {
		if r.Config.Int("sms") != 24 || r.Config.Int("send") != 24 {
			continue
		}
		l.Results[i].Role = record.Default
		twin := r
		twin.Role, twin.Stage, twin.Seconds = record.Twin, record.StageAA, [][]float64{{1}, {1}}
		l.Results = append(l.Results, twin)
	}
	l.Cases = reports.Cases(l.Run, l.Results)
	for _, c := range l.Cases {
		d := c.Default().Config
		c.Search = &record.Search{Decision: record.Decision{Config: d, Default: d}}
	}
	e, _ := Find("deepep-shim")
	rows := func() string {
		out, err := e.Write(Input{Run: l})
		if err != nil {
			t.Fatal(err)
		}
		return string(out.Data)
	}
	for _, want := range []string{"(724, (24, 24, 256), (24, 24, 256))", "(4096, (24, 24, 256), (24, 24, 256))"} {
		if got := rows(); !strings.Contains(got, want) {
			t.Errorf("want %s in %s", want, got)
		}
	}
	for _, c := range l.Cases {
		c.Search.Decision.Config = ep.Config{Kernel: "another"}
	}
	if got := rows(); !strings.Contains(got, "(724, (24, 24, 256), (24, 8, 256))") {
		t.Errorf("%s", got)
	}
}

func TestLeftOut(t *testing.T) {
	l := deepEPRun()
	l.Cases = slices.DeleteFunc(l.Cases, func(c *reports.Case) bool { return c.Problem.Op == ep.Combine && c.Problem.Tokens == 4096 })
	for _, name := range []string{"sglang", "deepep-shim", "megatron"} {
		e, _ := Find(name)
		out, err := e.Write(Input{Run: l})
		if want := "warning: 4096 tokens, uniform: left out, because no combine was measured"; err != nil || !slices.Contains(out.Notes, want) {
			t.Errorf("%s: %v, notes %q", name, err, out.Notes)
		}
	}
}

func TestRefusals(t *testing.T) {
	e, _ := Find("sglang")
	if _, err := e.Write(Input{deepEPRun(), map[int]float64{64: 1}}); err == nil || !strings.Contains(err.Error(), "64 tokens") {
		t.Errorf("a token count that was not measured: %v", err)
	}
	half := deepEPRun()
	half.Cases = slices.DeleteFunc(half.Cases, func(c *reports.Case) bool { return c.Problem.Op == ep.Combine && c.Problem.Tokens == 4096 })
	if _, err := e.Write(Input{half, map[int]float64{128: 3, 4096: 1, 8192: 1}}); err == nil || !strings.Contains(err.Error(), "4096 tokens") {
		t.Errorf("no combine was measured at a token count of the mix: %v", err)
	}
	f, _ := Find("flashinfer-env")
	if _, err := f.Write(Input{Run: deepEPRun()}); err == nil || !strings.Contains(err.Error(), "no dispatch and combine of kernel flashinfer") {
		t.Errorf("another library's run: %v", err)
	}
}

// TestFlashInferBlocks checks that the block sizes of dispatch and combine are not swapped.
func TestFlashInferBlocks(t *testing.T) {
	l := deepEPRunAs(oneSided, "flashinfer", ep.BF16)
	for i, r := range l.Results {
		threads := map[string]ep.Value{"dispatch 8": "512", "dispatch 24": "256", "combine 8": "1024", "combine 24": "128"}[fmt.Sprintf("%s %d", r.Problem.Op, r.Config.Int("send"))]
		l.Results[i].Config = ep.Config{Kernel: oneSided}.With("threads", threads).With("sms", r.Config.Values["sms"])
	}
	l.Cases = reports.Cases(l.Run, l.Results)
	e, _ := Find("flashinfer-env")
	out, err := e.Write(Input{l, map[int]float64{4096: 1}})
	if want := "export TLLM_MOE_A2A_DISPATCH_BLOCK_SIZE=512\nexport TLLM_MOE_A2A_COMBINE_BLOCK_SIZE=128\n"; err != nil || string(out.Data) != want {
		t.Errorf("%v\n%s", err, out.Data)
	}
}
