package chart

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// library returns a run at three token counts. At the first count its best dispatch takes `us` microseconds. At each
// next count it takes ten times as long.
func library(name, layout string, us float64) *reports.Loaded {
	run := &record.Run{Machine: ep.Machine{PCIID: "10de:2335", Arch: "sm_90", SMs: 132, GPUs: 2, Name: "H200"}}
	var results []record.Result
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
		run.Kernels = append(run.Kernels, record.Kernel{Name: name, Op: op, Work: ep.Work{Library: name, Layout: layout}})
		for tokens, factor := range map[int]float64{1: 1, 128: 10, 4096: 100} {
			problem := ep.Problem{Op: op, Mode: ep.Graph, Ranks: 2, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8, Tokens: tokens, MaxTokens: 4096, Dispatch: ep.BF16, Combine: ep.BF16}
			if op == ep.Combine {
				factor /= 2
			}
			for sms, slower := range map[string]float64{"20": 1.25, "32": 1} {
				r := record.Result{Problem: problem, Routing: "uniform", Seed: 1, Config: ep.Config{Kernel: name, Values: map[string]ep.Value{"sms": ep.Value(sms)}},
					Role: record.Candidate, Stage: record.StageTurns, Status: ep.OK, Clock: "chain", Fold: 1}
				if sms == "20" {
					r.Role = record.Default
				}
				for i := range 12 {
					r.Seconds = append(r.Seconds, []float64{us * factor * slower * (1 + float64(i%5)/200) * 1e-6})
				}
				results = append(results, r)
			}
		}
	}
	return &reports.Loaded{Path: name, Run: run, Results: results, Cases: reports.Cases(run, results)}
}

func TestLibraries(t *testing.T) {
	runs := []*reports.Loaded{library("deepep", "rank", 9), library("flashinfer", "rank", 7), library("epbench", "expert", 4)}
	kind, err := FindKind("libraries")
	if err != nil {
		t.Fatal(err)
	}
	figures := kind.Draw(runs, Options{})
	if len(figures) != 1 {
		t.Fatalf("%d pictures, want 1", len(figures))
	}
	checkFigure(t, figures[0], []string{"dispatch: rank, chain", "dispatch: expert, chain", "combine: rank, chain", "tokens per rank", "time of one call (us)", "deepep", "the library's default"})
	for _, want := range []string{"dispatch: rank, chain, deepep: 9.07 us at 1, ", "dispatch: rank, chain, flashinfer: 7.05 us at 1", "combine: expert, chain, epbench: 2.01 us at 1"} {
		if !strings.Contains(figures[0].Alt, want) {
			t.Errorf("%q is not in %s", want, figures[0].Alt)
		}
	}
	if strings.Contains(figures[0].Alt, "rank, chain, epbench") {
		t.Error("libraries of different work are in one panel")
	}
	if alone := kind.Draw(runs[1:], Options{}); len(alone) != 0 {
		t.Errorf("%d pictures of libraries that do different work", len(alone))
	}
}
