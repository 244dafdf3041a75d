package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/tune/ep"
)

// TestChangedResultsAreIllegalUnlessAccepted: less precise results are legal only for problems of reduced precision.
func TestChangedResultsAreIllegalUnlessAccepted(t *testing.T) {
	b, err := cpu.Open()
	if err != nil {
		t.Fatal(err)
	}
	legal := legality(b.Machine())
	p := ep.Problem{Op: ep.Combine, Mode: ep.Eager, Ranks: 2, Nodes: 1, Hidden: 256, Experts: 8, TopK: 2,
		Tokens: 4, MaxTokens: 4, Dispatch: ep.BF16, Combine: ep.BF16}
	dflt := kernels.Of(b.Kernels(), ep.Combine)[0].DefaultConfig(b.Machine(), p)
	dedup := dflt.With("algo", "dedup")
	if err := legal(b.Machine(), p, dflt); err != nil {
		t.Error(err)
	}
	if err := legal(b.Machine(), p, dedup); err == nil || !strings.HasPrefix(err.Error(), "algo: dedup changes results") {
		t.Errorf("in full precision: %v", err)
	}
	p.Precision = ep.Reduced
	if err := legal(b.Machine(), p, dedup); err != nil {
		t.Errorf("in reduced precision: %v", err)
	}
}

// TestAnswersAreSpelledForThisBuild: a row of an older build lacks the parameters input and mode. The answer has them.
func TestAnswersAreSpelledForThisBuild(t *testing.T) {
	var stdout, stderr bytes.Buffer
	args := strings.Fields("table lookup --table h100x2 --model qwen3-30b-a3b --ranks 2 --op dispatch --tokens 1 --dtype bf16 --format csv")
	if code := run(t.Context(), args, &stdout, &stderr); code != exitDone || !strings.Contains(stdout.String(), "dispatch_ll:count=sender,early=1,input=bf16,mode=fused,") {
		t.Errorf("exit %d\n%s%s", code, stdout.String(), stderr.String())
	}
}
