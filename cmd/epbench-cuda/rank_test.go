//go:build cuda

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/worker"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// argsEnv holds the arguments of epbench-cuda, which this test binary then plays.
const argsEnv = "EPBENCH_TEST_ARGS"

func TestMain(m *testing.M) {
	if args := os.Getenv(argsEnv); args != "" {
		root := newRoot()
		root.SetArgs(strings.Fields(args))
		exit(root.Execute())
	}
	os.Exit(m.Run())
}

// launchRanks starts ranks on emulated GPUs of this host.
func launchRanks(t *testing.T, ranks int, args string) *worker.Backend {
	t.Helper()
	if os.Getenv("EMUL_SRC") == "" {
		t.Skip("on GPUs native/hosts-gpu.sh runs the same")
	}
	t.Setenv(argsEnv, args)
	t.Setenv("EMUL_GPUS", fmt.Sprint(ranks))
	limits := worker.DefaultLimits()
	limits.Hello, limits.Round = 2*time.Minute, 2*time.Minute
	b, err := worker.Open(t.Context(), worker.Command{
		Argv: []string{"../../examples/workers/ranks.sh", fmt.Sprint(ranks), os.Args[0]}, Listen: worker.Loopback,
		Said: func(line string) { t.Log(line) },
	}, limits, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// hostsProblem is small enough for an emulated GPU.
func hostsProblem(d ep.DType, ranks, nodes int) ep.Problem {
	return ep.Problem{
		Op: ep.Pair, Mode: ep.Graph, Ranks: ranks, Nodes: nodes, Hidden: 256, Experts: 4 * ranks, TopK: 3,
		Tokens: 9, MaxTokens: 9, Dispatch: d, Combine: ep.BF16,
	}
}

func draw(t *testing.T, p ep.Problem) *workloads.Workload {
	t.Helper()
	d, err := workloads.Parse("zipf:1.0")
	if err != nil {
		t.Fatal(err)
	}
	w, err := workloads.New(d, p, 7)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// pairOf is the default pair with these changes, on few threads.
func pairOf(t *testing.T, b kernels.Backend, p ep.Problem, changes ...string) ep.Config {
	t.Helper()
	k := kernels.For(b.Kernels(), p)[0]
	c := k.DefaultConfig(b.Machine(), p).With("dispatch.threads", "128").With("combine.threads", "128").With("dispatch.count_sms", "1")
	for _, change := range changes {
		name, value, _ := strings.Cut(change, "=")
		c = c.With(name, ep.Value(value))
	}
	return c
}

// right verifies and runs a config, and verifies it again on what the runs left.
func right(t *testing.T, s kernels.Session, c ep.Config) {
	t.Helper()
	if err := s.Prepare(t.Context(), c); err != nil {
		t.Fatalf("%s: %v", c.Key(), err)
	}
	for range 2 {
		v, err := s.Verify(t.Context(), c)
		if err != nil || !v.OK() || v.Rows == 0 {
			t.Fatalf("%s: %+v, %v", c.Key(), v, err)
		}
		r, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 2, Fold: 2})
		if err != nil || len(r.Seconds) != 2 {
			t.Fatalf("%s: %v, %v", c.Key(), r, err)
		}
	}
}

// TestRankHosts: four ranks on two hosts give the oracle's answers over a network that
// delays and reorders, by both routes, fused and split; then a signal that is lost is
// named within the deadline, and the ranks go on; then a rank that dies is named.
func TestRankHosts(t *testing.T) {
	b := launchRanks(t, 4, "rank --split --deadline 20s --drill drop:2:5:relay_chunk=7")
	if got := b.Machine(); got.GPUs != 4 || !strings.HasSuffix(got.Link, "+split") || got.Backend == "cuda" {
		t.Errorf("the machine is %+v", got)
	}
	p := hostsProblem(ep.FP8, 4, 2)
	s, err := b.Open(t.Context(), draw(t, p))
	if err != nil {
		t.Fatal(err)
	}
	right(t, s, pairOf(t, b, p, "dispatch.route=direct", "dispatch.mode=split", "combine.mode=split"))
	right(t, s, pairOf(t, b, p, "dispatch.route=rail"))
	lost := pairOf(t, b, p, "dispatch.relay_chunk=7")
	if err := s.Prepare(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
}
