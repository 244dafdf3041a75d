//go:build cuda

package drive

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

func onEmulator() bool { return os.Getenv("EMUL_SRC") != "" }

func drillProblem(op ep.Op, mode ep.Mode, ranks int) ep.Problem {
	return ep.Problem{
		Op: op, Mode: mode, Ranks: ranks, Nodes: 1, Hidden: 256, Experts: 4 * ranks, TopK: 2,
		Tokens: 8, MaxTokens: 8, Dispatch: ep.FP8, Combine: ep.BF16,
	}
}

func drillWorkload(t *testing.T, p ep.Problem) *workloads.Workload {
	t.Helper()
	w, err := workloads.Draw("uniform", p, 7)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// drillConfig returns a kernel's default config. On an emulated GPU, the config has the fewest legal threads.
func drillConfig(b *Backend, k kernels.Kernel, p ep.Problem) ep.Config {
	c := k.DefaultConfig(b.Machine(), p)
	if onEmulator() {
		return fewestThreads(b, k, p, c)
	}
	return c
}

func openSession(t *testing.T, o Options, p ep.Problem) (*Backend, *session) {
	t.Helper()
	w := drillWorkload(t, p)
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	s, err := b.Open(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return b, s.(*session)
}

// TestSession runs every kernel's default in every mode and on every clock. On an emulated GPU it skips a
// combination of clock and mode if another combination runs the same code.
func TestSession(t *testing.T) {
	for _, clock := range clocks {
		for _, mode := range ep.Modes() {
			for _, op := range ep.RowOps() {
				if onEmulator() && clock != clockChain && mode != ep.Graph {
					continue
				}
				t.Run(clock+"/"+string(mode)+"/"+string(op), func(t *testing.T) {
					layouts := drilledLayouts()
					if onEmulator() && mode == ep.Cold { // emptying the cache works in one layout only
						layouts = layouts[:1]
					}
					for _, layout := range layouts {
						p := drillProblem(op, mode, 2)
						p.Layout = layout
						if p.Validate() != nil || op == ep.Activation && clock == clockSpan { // activations have no span
							continue
						}
						b, s := openSession(t, Options{Loopback: true, Clock: clock, Deadline: 20 * time.Second}, p)
						all := kernels.For(b.Kernels(), p)
						if onEmulator() {
							all = all[:1]
						}
						for _, k := range all {
							runConfig(t, b, s, k, drillConfig(b, k, s.problem))
						}
					}
				})
			}
		}
	}
}

// TestSessionPeers: GPUs that cannot address each other are refused, except with one rank.
func TestSessionPeers(t *testing.T) {
	if !onEmulator() {
		t.Skip("only the emulated driver can take away the links between GPUs")
	}
	t.Setenv("EMUL_PEERS", "0")
	b, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	_, err = b.Open(t.Context(), drillWorkload(t, drillProblem(ep.Dispatch, ep.Graph, 2)))
	want := "ranks: GPU 0 cannot address GPU 1 (no peer access between them); choose others with CUDA_VISIBLE_DEVICES"
	if err == nil || err.Error() != want {
		t.Errorf("two ranks: %v, want %q", err, want)
	}
	s, err := b.Open(t.Context(), drillWorkload(t, drillProblem(ep.Dispatch, ep.Graph, 1)))
	if err != nil {
		t.Fatalf("one rank: %v", err)
	}
	s.Close()
}

func TestSessionGather(t *testing.T) {
	b, s := openSession(t, Options{Loopback: true, Deadline: 20 * time.Second}, drillProblem(ep.Dispatch, ep.Graph, 2))
	k := kernels.Of(b.Kernels(), ep.Dispatch)[0]
	runConfig(t, b, s, k, k.DefaultConfig(b.Machine(), s.problem))
	n := dtype.Of(s.problem.Dispatch, s.problem.Hidden).Payload
	for _, offsets := range [][]int{{0}, {5 * n, n, 3 * n}, {7 * n, 7 * n, 0, 2 * n, 9 * n}} {
		got, err := s.read(1, declare.PartOut, n, offsets...)
		if err != nil {
			t.Fatal(err)
		}
		for i, at := range offsets {
			want, err := download[byte](s.ranks, 1, declare.PartOut, at, n)
			if err != nil || !bytes.Equal(got[i], want) {
				t.Errorf("offset %d of %v differs, %v", at, offsets, err)
			}
		}
	}
}

// TestSessionMemoryMoves: sessions' heaps lie in different places of one arena.
func TestSessionMemoryMoves(t *testing.T) {
	b, err := Open(Options{Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	places := map[cu.DevicePtr]bool{}
	for range 8 {
		s, err := b.Open(t.Context(), drillWorkload(t, drillProblem(ep.Dispatch, ep.Graph, 1)))
		if err != nil {
			t.Fatal(err)
		}
		p := s.(*session).problem
		if err := s.Prepare(t.Context(), kernels.Of(b.Kernels(), p.Op)[0].DefaultConfig(b.Machine(), p)); err != nil {
			t.Fatal(err)
		}
		places[s.(*session).ranks.base(0)] = true
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(places) < 3 {
		t.Errorf("the heaps of 8 sessions begin at %d addresses", len(places))
	}
}

// TestSessionStages reads every stage.
func TestSessionStages(t *testing.T) {
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
		for _, stage := range stages {
			for _, layout := range drilledLayouts() {
				p := drillProblem(op, ep.Graph, 2)
				p.Layout = layout
				b, s := openSession(t, Options{Loopback: true, Clock: clockSpan + ":" + stage, Deadline: 20 * time.Second}, p)
				for _, k := range kernels.For(b.Kernels(), p) {
					base := drillConfig(b, k, s.problem)
					runConfig(t, b, s, k, base)
					if _, ok := base.Values["algo"]; ok {
						runConfig(t, b, s, k, base.With("algo", "dedup"))
					}
				}
			}
		}
	}
}

// TestSessionConfigs runs every value that is a word, such as algo=dedup.
func TestSessionConfigs(t *testing.T) {
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine, ep.Activation} {
		b, s := openSession(t, Options{Loopback: true, Clock: clockEvent, Deadline: 20 * time.Second}, drillProblem(op, ep.Graph, 2))
		for _, k := range kernels.For(b.Kernels(), s.problem) {
			base := drillConfig(b, k, s.problem)
			runConfig(t, b, s, k, base)
			for _, q := range k.Params {
				for _, v := range q.Values {
					if _, number := v.Int(); !number && v != base.Values[q.Name] {
						runConfig(t, b, s, k, base.With(q.Name, v))
					}
				}
			}
		}
	}
}

// runConfig verifies and runs a config twice without a reset.
func runConfig(t *testing.T, b *Backend, s *session, k kernels.Kernel, c ep.Config) {
	t.Helper()
	if err := k.Check(b.Machine(), s.problem, c); err != nil {
		t.Logf("%s: %v", c.Key(), err)
		return
	}
	if err := s.Prepare(t.Context(), c); err != nil {
		t.Errorf("%s: %v", c.Key(), err)
		return
	}
	for i := range 2 {
		v, err := s.Verify(t.Context(), c)
		if err != nil || !v.OK() {
			t.Errorf("%s, verification %d: result %+v, error %v", c.Key(), i, v, err)
			return
		}
		r, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 2, Fold: 3})
		if err != nil {
			t.Errorf("%s: %v", c.Key(), err)
			return
		}
		t.Logf("%s: %.3g s a call, clock %s", c.Key(), r.Seconds, r.Clock)
	}
}

// TestDrill: the failure after a lost signal names expert and rank. The next candidate runs.
func TestDrill(t *testing.T) {
	b, s := openSession(t, Options{
		Loopback: true, Deadline: 500 * time.Millisecond,
		Drill: Drill{Rank: 1, Drop: 3, Config: "mode=split"},
	}, drillProblem(ep.Dispatch, ep.Graph, 2))
	k := kernels.Of(b.Kernels(), ep.Dispatch)[0]
	sound := drillConfig(b, k, s.problem)
	broken := sound.With("mode", "split")
	for _, c := range []ep.Config{sound, broken} {
		if err := s.Prepare(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	_, err := s.Run(t.Context(), broken, kernels.RunSpec{Rounds: 3, Fold: 2})
	var f *kernels.Failure
	if !errors.As(err, &f) || f.Status != ep.Hang {
		t.Fatalf("a lost signal gave %v, want a hang", err)
	}
	t.Logf("after %v: %v", time.Since(start), f)
	if !strings.Contains(f.Reason, "expert 2") || !strings.Contains(f.Reason, "from rank 1") {
		t.Errorf("the reason does not name expert 2 of rank 1: %s", f.Reason)
	}
	if _, err := s.Run(t.Context(), sound, kernels.RunSpec{Rounds: 3, Fold: 2}); err != nil {
		t.Errorf("after the hang: %v", err)
	}
	if v, err := s.Verify(t.Context(), sound); err != nil || !v.OK() {
		t.Errorf("after the hang: %+v, %v", v, err)
	}
}
