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

// If argsEnv is set, this test binary runs as epbench-cuda with these arguments. Rank 1 exits when the file named by
// dieEnv exists.
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
		if os.Remove(file) == nil { // or ranks that start later would exit too
			os.Exit(9)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

type launched struct {
	*worker.Backend
	die string // a file that makes rank 1 exit
}

// launchRanks starts a worker. args must not choose a clock that subtracts times: on a busy host a difference can be
// negative.
func launchRanks(t *testing.T, ranks int, args string) launched {
	t.Helper()
	if os.Getenv("EMUL_SRC") == "" {
		t.Skip("this test needs emulated GPUs; on real GPUs native/hosts-gpu.sh runs the same")
	}
	l := launched{die: filepath.Join(t.TempDir(), "die")}
	limits := worker.DefaultLimits()
	limits.Hello, limits.Round = 2*time.Minute, 2*time.Minute
	known := func(w worker.Welcome) ([]kernels.Kernel, error) { return declare.HostKernels(w.Machine), nil }
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

const hostsPair, count, data = "dispatch_hosts+combine_hosts", "count", "data"

// pair returns a prepared config of the pair of kernels that cross hosts. `arrival` sets both parameters of this name.
// A change is NAME=VALUE.
func (l launched) pair(t *testing.T, s kernels.Session, p ep.Problem, arrival string, changes ...string) ep.Config {
	t.Helper()
	k, err := kernels.Find(l.Kernels(), ep.Pair, hostsPair)
	if err != nil {
		t.Fatal(err)
	}
	c := k.DefaultConfig(l.Machine(), p)
	for _, change := range append([]string{"dispatch.threads=128", "combine.threads=128", "dispatch.arrival=" + arrival, "combine.arrival=" + arrival}, changes...) {
		name, value, _ := strings.Cut(change, "=")
		c = c.With(name, ep.Value(value))
	}
	if err := cmp.Or(k.Check(l.Machine(), p, c), s.Prepare(t.Context(), c)); err != nil {
		t.Fatalf("%s: %v", c.Key(), err)
	}
	return c
}

// right verifies and runs a config twice. In the second run, buffers still hold the data of the first run.
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

// TestRankHosts: results are right on a network that delays and reorders messages. If a rank exits during a call, the
// error names the rank, and the others exit too.
func TestRankHosts(t *testing.T) {
	t.Parallel()
	l := launchRanks(t, 4, "rank --clock event --split --deadline 30s")
	if m := l.Machine(); m.GPUs != 4 || !strings.HasSuffix(m.Link, "+split") || m.Backend == "cuda" {
		t.Errorf("the machine is %+v; it must differ from the machine of a worker with one process, or look-ups would use the rows of that machine", m)
	}
	p := hostsProblem(4, 2)
	s := l.open(t, p)
	right(t, s, l.pair(t, s, p, count, "dispatch.mode=split", "combine.mode=split"))
	right(t, s, l.pair(t, s, p, data))
	right(t, s, l.pair(t, s, p, data, "dispatch.route=rail"))
	right(t, s, l.pair(t, s, p, data, "dispatch.mode=split", "combine.mode=split"))
	right(t, s, l.pair(t, s, p, data, "dispatch.route=rail", "dispatch.mode=split"))
	right(t, s, l.pair(t, s, p, count, "combine.route=rail", "combine.partial=bf16", "combine.mode=split"))
	rail := l.pair(t, s, p, count, "dispatch.route=rail", "combine.route=rail")
	right(t, s, rail)
	refuseMixed(t, l, p)

	if err := os.WriteFile(l.die, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var f *kernels.Failure
	_, err := s.Run(t.Context(), rail, kernels.RunSpec{Rounds: 4000, Fold: 50})
	if !errors.As(err, &f) || f.Status != ep.Crash || !strings.Contains(f.Reason, "rank 1 of 4") {
		t.Errorf("after rank 1 died: %v, want a crash of rank 1", err)
	}
}

// TestRankRail: six ranks on three hosts forward messages on route "rail".
func TestRankRail(t *testing.T) {
	t.Parallel()
	l := launchRanks(t, 6, "rank --clock event --split --deadline 30s")
	p := hostsProblem(6, 3)
	p.Hidden, p.Dispatch = 640, ep.BF16
	s := l.openRouted(t, p, "ragged:1+masked:0.5")
	right(t, s, l.pair(t, s, p, data, "dispatch.route=rail"))
	right(t, s, l.pair(t, s, p, data, "dispatch.route=rail", "dispatch.mode=split", "dispatch.part=1024"))
}

// refuseMixed: a combine that cannot read its dispatch's output is refused.
func refuseMixed(t *testing.T, l launched, p ep.Problem) {
	t.Helper()
	k, err := kernels.Find(l.Kernels(), ep.Pair, hostsPair)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Check(l.Machine(), p, k.DefaultConfig(l.Machine(), p).With("dispatch.arrival", data)); err == nil || !strings.Contains(err.Error(), "does not write") {
		t.Errorf("%s: %v, want a refusal", k.Name, err)
	}
}

// TestRankDrill: if a signal between hosts is lost, the error names its sender. The ranks continue to work.
func TestRankDrill(t *testing.T) {
	t.Parallel()
	l := launchRanks(t, 2, "rank --clock event --split --deadline 3s --drill drop:1:2:threads=96")
	p := hostsProblem(2, 2)
	s := l.open(t, p)
	for _, c := range []struct{ arrival, route, names string }{
		{count, "direct", "expert 2 from rank 1"},
		{data, "direct", "rank 0 waited in dispatch_wait for rank 1"},
		{data, "rail", "rank 0 waited in dispatch_wait for rank 1"},
	} {
		lossy := l.pair(t, s, p, c.arrival, "dispatch.route="+c.route, "dispatch.threads=96")
		for try := 1; ; try++ { // on a busy host another wait may time out first
			var f *kernels.Failure
			_, err := s.Run(t.Context(), lossy, kernels.RunSpec{Rounds: 3, Fold: 2})
			if !errors.As(err, &f) || f.Status != ep.Hang || try == 10 {
				t.Fatalf("%s on route %s: after a lost signal: %v, want a hang that names %q", c.arrival, c.route, err, c.names)
			}
			if strings.Contains(f.Reason, c.names) {
				break
			}
		}
		right(t, s, l.pair(t, s, p, c.arrival, "dispatch.route="+c.route))
	}
}

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
