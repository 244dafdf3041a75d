package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

func TestEqualWorkOnly(t *testing.T) {
	run := func(name, layout string, role record.Role) *reports.Loaded {
		r := &record.Run{}
		if layout != "" {
			r.Kernels = []record.Kernel{{Name: name, Op: ep.Dispatch, Work: ep.Work{Library: name, Layout: layout}}}
		}
		results := []record.Result{{Routing: "uniform", Seed: 1, Config: ep.Config{Kernel: name}, Role: role, Stage: record.StageBench, Status: ep.OK, Clock: "chain",
			Seconds: [][]float64{{1e-5}}, Problem: ep.Problem{Op: ep.Dispatch, Mode: ep.Graph, Ranks: 2, Nodes: 1, Hidden: 512, Experts: 8, TopK: 2, Tokens: 8, MaxTokens: 8, Dispatch: ep.BF16, Combine: ep.BF16}}}
		return &reports.Loaded{Path: name, Run: r, Results: results, Cases: reports.Cases(r, results)}
	}
	runs := []*reports.Loaded{run("deepep", "rank", record.Default), run("nccl", "rank", record.Default), run("ours", "expert", record.Default), run("paper", "", record.Peer)}
	kind, err := FindKind("latency")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range kind.Draw(runs, Options{}) {
		var lines []string
		for _, name := range []string{"deepep", "nccl", "ours", "paper"} {
			if strings.Contains(f.Alt, name) {
				lines = append(lines, name)
			}
		}
		got = append(got, f.Name+": "+strings.Join(lines, " "))
	}
	want := []string{"latency-dispatch-bf16-h512-e8-k2-r2-rank: deepep nccl paper", "latency-dispatch-bf16-h512-e8-k2-r2-expert: ours paper"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if figures := kind.Draw(runs[:2], Options{}); len(figures) != 1 || strings.Contains(figures[0].Title, "rank)") {
		t.Errorf("two libraries of equal work: %d pictures, %q", len(figures), figures[0].Title)
	}
}
