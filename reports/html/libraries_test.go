package html

import (
	"bytes"
	"strings"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// TestLibrariesBesideEachOther: the section needs two libraries on one machine.
func TestLibrariesBesideEachOther(t *testing.T) {
	run := func(library, pci string) *reports.Loaded {
		r := &record.Run{Machine: ep.Machine{PCIID: pci, Arch: "sm_90", SMs: 132},
			Kernels: []record.Kernel{{Name: library, Op: ep.Dispatch, Work: ep.Work{Library: library, Layout: "rank"}}}}
		results := []record.Result{{Routing: "uniform", Seed: 1, Config: ep.Config{Kernel: library}, Role: record.Default, Stage: record.StageBench, Status: ep.OK, Clock: "chain",
			Seconds: [][]float64{{1e-5}, {1.1e-5}}, Problem: ep.Problem{Op: ep.Dispatch, Mode: ep.Graph, Ranks: 2, Nodes: 1, Hidden: 512, Experts: 8, TopK: 2, Tokens: 8, MaxTokens: 8, Dispatch: ep.BF16, Combine: ep.BF16}}}
		return &reports.Loaded{Path: library, Run: r, Results: results, Cases: reports.Cases(r, results)}
	}
	for _, c := range []struct {
		a, b *reports.Loaded
		want int
	}{
		{run("deepep", "10de:2335"), run("nccl", "10de:2335"), 1},
		{run("deepep", "10de:2335"), run("deepep", "10de:2335"), 0},
		{run("deepep", "10de:2335"), run("nccl", "10de:2330"), 0},
	} {
		var b bytes.Buffer
		if err := Write(&b, []*reports.Loaded{c.a, c.b}, Options{}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), `id="libraries"`); n != c.want {
			t.Errorf("%s and %s on %s: %d sections of libraries, want %d", c.a.Path, c.b.Path, c.b.Run.Machine.PCIID, n, c.want)
		}
	}
}
