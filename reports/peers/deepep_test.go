package peers

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/testfile"
)

func summary(results []record.Result) []string {
	var out []string
	for _, r := range results {
		p := r.Problem
		out = append(out, fmt.Sprintf("%s %s %s t%d r%d n%d %.2f us, %s", p.Op, p.Dispatch, r.Config.Key(), p.Tokens, p.Ranks, p.Nodes, r.Seconds[0][0]*1e6, r.Routing))
	}
	return out
}

func TestSlowestRank(t *testing.T) {
	lines := func(a, b, c float64) string {
		var out strings.Builder
		for rank, us := range []float64{a, b, c} {
			fmt.Fprintf(&out, "[rank %d] Dispatch bandwidth: %.2f GB/s, avg_t=%.2f us | Combine bandwidth: %.2f GB/s, avg_t=%.2f us\n", rank, 1024*7408/us/1e3, us, 1024*14336/(2*us)/1e3, 2*us)
		}
		return out.String()
	}
	results, _, _, err := Read(strings.NewReader(lines(35, 44, 37)+lines(36, 38, 33)), "auto", Given{Hidden: 7168, Experts: 258, TopK: 8, Tokens: 128})
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{44, 88, 38, 76}
	for i, r := range results {
		if got := r.Seconds[0][0] * 1e6; got < want[i]-0.001 || got > want[i]+0.001 {
			t.Errorf("figure %d: %.3f us, want %g", i, got, want[i])
		}
	}
	if len(results) != 4 || results[0].Problem.Ranks != 3 {
		t.Errorf("%q", summary(results))
	}
}

func TestBestLinesOnly(t *testing.T) {
	const text = `[config] num_tokens=4096, hidden=7168, num_topk=8
[tuning] Best dispatch (FP8): SMs 24, NVL chunk 8, 326.56 GB/s (NVL), t: 490.10 us
[tuning] Best combine: SMs 24, NVL chunk 3: 332.57 GB/s (NVL), t: 936.71 us
`
	results, _, warnings, err := Read(strings.NewReader(text), "auto", Given{Experts: 256, Ranks: 8})
	want := []string{"dispatch fp8 deepep-normal:chunk=8,sms=24 t4096 r8 n1 490.10 us, uniform", "combine bf16 deepep-normal:chunk=3,sms=24 t4096 r8 n1 936.71 us, uniform"}
	if got := summary(results); err != nil || len(warnings) > 0 || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v, %q\n%s", err, warnings, strings.Join(got, "\n"))
	}
	if _, _, _, err := Read(strings.NewReader(strings.Split(text, "[tuning] Best")[0]+"[tuning] SMs 24, NVL chunk 8: 326.56 GB/s (NVL), 490.10 us\n"), "auto", Given{Experts: 256, Ranks: 8}); err == nil || !strings.Contains(err.Error(), "no [tuning] Best line") {
		t.Errorf("got %v", err)
	}
}

// TestInternode: a time is the sum of the notify kernel and the transfer.
func TestInternode(t *testing.T) {
	data := testfile.Read(t, filepath.Join("testdata", "deepep-internode.txt"))
	g := Given{Experts: 256, Ranks: 16}
	if _, _, _, err := Read(strings.NewReader(string(data)), "auto", g); err == nil || !strings.Contains(err.Error(), "give --nodes") {
		t.Errorf("without --nodes: %v", err)
	}
	g.Nodes = 2
	results, _, warnings, err := Read(strings.NewReader(string(data)), "auto", g)
	if err != nil || len(warnings) > 0 || len(results) != 24 {
		t.Fatalf("%d results, %q, %v", len(results), warnings, err)
	}
	for _, r := range results {
		if p := r.Problem; p.Nodes != 2 || p.Ranks != 16 || p.TopK != 8 || r.Config.Str("rdma_chunk") != "16" || r.Clock != "span" || r.Seconds[0][0] < 400e-6 {
			t.Errorf("%q", summary([]record.Result{r}))
		}
	}
	if op := results[0].Problem.Op; op != ep.Dispatch {
		t.Errorf("the first op is %s, want dispatch", op)
	}
}

// TestOldVersions reads lines that have only GB/s.
func TestOldVersions(t *testing.T) {
	results, _, warnings, err := Read(strings.NewReader("[config] num_tokens=4096, hidden=7168, num_topk=8\n[tuning] SMs 24, NVL chunk 4: 331.77 GB/s (NVL)\n[tuning] Best dispatch (BF16): SMs 24, NVL chunk 4, 331.77 GB/s (NVL)\n"), "auto", Given{Experts: 256, Ranks: 8})
	if got := summary(results); err != nil || len(warnings) > 0 || len(got) != 1 || got[0] != "dispatch bf16 deepep-normal:chunk=4,sms=24 t4096 r8 n1 937.10 us, uniform" {
		t.Errorf("%v, %q, %q", err, warnings, got)
	}
}

// TestLineWithoutSpeed: a [tuning] line without GB/s is refused.
func TestLineWithoutSpeed(t *testing.T) {
	_, _, _, err := Read(strings.NewReader("[tuning] Best dispatch (BF16): SMs 24, NVL chunk 6, t: 499.58 us\n"), "auto", Given{Ranks: 8, Hidden: 7168, Experts: 256, TopK: 8, Tokens: 4096})
	if err == nil || !strings.Contains(err.Error(), "no GB/s (NVL)") {
		t.Errorf("%v", err)
	}
}
