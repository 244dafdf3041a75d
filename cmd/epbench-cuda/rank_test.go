//go:build cuda

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/worker"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// argsEnv holds the arguments with which this test binary plays epbench-cuda. Its rank 1 dies once the
// file that dieEnv names exists.
const (
	argsEnv = "EPBENCH_TEST_ARGS"
	dieEnv  = "EPBENCH_TEST_DIE"
)

func TestMain(m *testing.M) {
	args := os.Getenv(argsEnv)
	if args == "" {
		os.Exit(m.Run())
	}
	if os.Getenv("RANK") == "1" {
		go dieAt(os.Getenv(dieEnv))
	}
	root := newRoot()
	root.SetArgs(strings.Fields(args))
	exit(root.Execute())
}

func dieAt(file string) {
	for {
		if os.Remove(file) == nil { // the ranks that replace these do not find it
			os.Exit(9)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// launched is a worker of several processes on emulated GPUs of this host.
type launched struct {
	*worker.Backend
	die string // a file that ends rank 1
}

// launchRanks starts a worker with this many ranks. Its clock must not be a difference of times, which
// a busy host turns negative.
func launchRanks(t *testing.T, ranks int, args string) launched {
	t.Helper()
	if os.Getenv("EMUL_SRC") == "" {
		t.Skip("on GPUs native/hosts-gpu.sh runs the same")
	}
	l := launched{die: filepath.Join(t.TempDir(), "die")}
	limits := worker.DefaultLimits()
	limits.Hello, limits.Round = 2*time.Minute, 2*time.Minute
	known := func(w worker.Welcome) ([]kernels.Kernel, error) { return declare.HostKernels(w.Machine), nil } // as epbench has them
	var err error
	l.Backend, err = worker.Open(t.Context(), worker.Command{
		Argv: []string{"env", argsEnv + "=" + args, dieEnv + "=" + l.die, fmt.Sprintf("EMUL_GPUS=%d", ranks),
			"../../examples/workers/ranks.sh", fmt.Sprint(ranks), os.Args[0]},
		Listen: worker.Loopback,
		Said:   func(line string) { t.Log(line) },
	}, limits, known)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Backend.Close() })
	return l
}

// hostsProblem is small enough for an emulated GPU.
func hostsProblem(ranks, nodes int) ep.Problem {
	return ep.Problem{
		Op: ep.Pair, Mode: ep.Graph, Ranks: ranks, Nodes: nodes, Hidden: 256, Experts: 4 * ranks, TopK: 3,
		Tokens: 9, MaxTokens: 9, Dispatch: ep.FP8, Combine: ep.BF16,
	}
}

func (l launched) open(t *testing.T, p ep.Problem) kernels.Session {
	t.Helper()
	return l.openRouted(t, p, "zipf:1.0")
}

func (l launched) openRouted(t *testing.T, p ep.Problem, routing string) kernels.Session {
	t.Helper()
	d, err := workloads.Parse(routing)
	if err != nil {
		t.Fatal(err)
	}
	w, err := workloads.New(d, p, 7)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Open(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Pairs of kernels.
const (
	hostsPair = "dispatch_hosts+combine_hosts"
	llPair    = "dispatch_ll_hosts+combine_ll_hosts"
)

// pair prepares the default of a pair of kernels with these changes, on few threads.
func (l launched) pair(t *testing.T, s kernels.Session, p ep.Problem, pair string, changes ...string) ep.Config {
	t.Helper()
	k, err := kernels.Find(l.Kernels(), ep.Pair, pair)
	if err != nil {
		t.Fatal(err)
	}
	c := k.DefaultConfig(l.Machine(), p)
	for _, change := range append([]string{"dispatch.threads=128", "combine.threads=128"}, changes...) {
		name, value, _ := strings.Cut(change, "=")
		c = c.With(name, ep.Value(value))
	}
	if err := cmp.Or(k.Check(l.Machine(), p, c), s.Prepare(t.Context(), c)); err != nil {
		t.Fatalf("%s: %v", c.Key(), err)
	}
	return c
}

// right verifies and runs a config, and verifies it again on the memory as the runs left
// it.
func right(t *testing.T, s kernels.Session, c ep.Config) {
	t.Helper()
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
// delays and reorders, by both routes, fused and split. A rank that dies during a call is
// named, and the others end with it.
func TestRankHosts(t *testing.T) {
	t.Parallel()
	l := launchRanks(t, 4, "rank --clock event --split --deadline 30s")
	if m := l.Machine(); m.GPUs != 4 || !strings.HasSuffix(m.Link, "+split") || m.Backend == "cuda" {
		t.Errorf("the machine is %+v: a table of one process would answer for it", m)
	}
	p := hostsProblem(4, 2)
	s := l.open(t, p)
	right(t, s, l.pair(t, s, p, hostsPair, "dispatch.mode=split", "combine.mode=split"))
	right(t, s, l.pair(t, s, p, llPair))
	right(t, s, l.pair(t, s, p, llPair, "dispatch.route=rail"))
	right(t, s, l.pair(t, s, p, llPair, "dispatch.mode=split", "combine.mode=split"))
	right(t, s, l.pair(t, s, p, llPair, "dispatch.route=rail", "dispatch.mode=split"))
	right(t, s, l.pair(t, s, p, hostsPair, "combine.route=rail", "combine.partial=bf16", "combine.mode=split"))
	rail := l.pair(t, s, p, hostsPair, "dispatch.route=rail", "combine.route=rail")
	right(t, s, rail)
	refuseMixed(t, l, p)

	if err := os.WriteFile(l.die, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var f *kernels.Failure
	_, err := s.Run(t.Context(), rail, kernels.RunSpec{Rounds: 4000, Fold: 50})
	if !errors.As(err, &f) || f.Status != ep.Crash || !strings.Contains(f.Reason, "rank 1 of 4") {
		t.Errorf("a rank that died gave %v, want a crash of rank 1", err)
	}
}

// TestRankRail: six ranks on three hosts, some without tokens, forward messages of several parts to each
// other.
func TestRankRail(t *testing.T) {
	t.Parallel()
	l := launchRanks(t, 6, "rank --clock event --split --deadline 30s")
	p := hostsProblem(6, 3)
	p.Hidden, p.Dispatch = 640, ep.BF16
	s := l.openRouted(t, p, "ragged:1+masked:0.5")
	right(t, s, l.pair(t, s, p, llPair, "dispatch.route=rail"))
	right(t, s, l.pair(t, s, p, llPair, "dispatch.route=rail", "dispatch.mode=split", "dispatch.part=1024"))
}

// refuseMixed: epbench knows that a combine reads only what its own dispatch leaves.
func refuseMixed(t *testing.T, l launched, p ep.Problem) {
	t.Helper()
	k, err := kernels.Find(l.Kernels(), ep.Pair, "dispatch_ll_hosts+combine_hosts")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Check(l.Machine(), p, k.DefaultConfig(l.Machine(), p)); err == nil || !strings.Contains(err.Error(), "does not leave") {
		t.Errorf("%s: %v, want a refusal", k.Name, err)
	}
}

// TestRankDrill: a signal that is lost between hosts is named within the deadline, and the ranks go on.
// The low-latency kernels lose one put with all counts for a rank, or by the rail one with the messages
// to a host: the report then names the sender and no expert.
func TestRankDrill(t *testing.T) {
	t.Parallel()
	l := launchRanks(t, 2, "rank --clock event --split --deadline 3s --drill drop:1:2:threads=96")
	p := hostsProblem(2, 2)
	s := l.open(t, p)
	for _, c := range []struct{ pair, route, names string }{
		{hostsPair, "direct", "expert 2 from rank 1"},
		{llPair, "direct", "rank 0 waited in dispatch_wait for rank 1"},
		{llPair, "rail", "rank 0 waited in dispatch_wait for rank 1"},
	} {
		lossy := l.pair(t, s, p, c.pair, "dispatch.route="+c.route, "dispatch.threads=96")
		for try := 1; ; try++ { // on a busy host another wait may pass the deadline first
			var f *kernels.Failure
			_, err := s.Run(t.Context(), lossy, kernels.RunSpec{Rounds: 3, Fold: 2})
			if !errors.As(err, &f) || f.Status != ep.Hang || try == 10 {
				t.Fatalf("%s by %s: a lost signal gave %v, want a hang that names %s", c.pair, c.route, err, c.names)
			}
			if strings.Contains(f.Reason, c.names) {
				break
			}
		}
		right(t, s, l.pair(t, s, p, c.pair, "dispatch.route="+c.route))
	}
}

// TestRankTopology: ranks and hosts that were not launched are refused, and the refusal names the way
// out.
func TestRankTopology(t *testing.T) {
	t.Parallel()
	l := launchRanks(t, 2, "rank --deadline 30s")
	for _, c := range []struct {
		ranks, nodes int
		want         string
	}{{4, 1, "use --ranks 2"}, {2, 2, "--nodes 1"}} {
		_, err := l.Open(context.Background(), &workloads.Workload{Problem: hostsProblem(c.ranks, c.nodes), Ranks: make([]workloads.Routing, c.ranks)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d ranks on %d hosts: %v, want %q", c.ranks, c.nodes, err, c.want)
		}
	}
}
