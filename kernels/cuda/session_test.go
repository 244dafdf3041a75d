//go:build cuda

package cuda

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/plan"
	"github.com/epbench/epbench/workloads"
)

// onEmulator reports whether the driver is the one of native/emul/driver.
func onEmulator() bool { return os.Getenv("EMUL_SRC") != "" }

// drillProblem is small enough for an emulated GPU.
func drillProblem(op plan.Op, mode plan.Mode, ranks int) plan.Problem {
	return plan.Problem{
		Op: op, Mode: mode, Ranks: ranks, Nodes: 1, Hidden: 256, Experts: 4 * ranks, TopK: 2,
		Tokens: 8, MaxTokens: 8, Dispatch: plan.FP8, Combine: plan.BF16,
	}
}

func openSession(t *testing.T, o Options, p plan.Problem) (*Backend, *session) {
	t.Helper()
	d, err := workloads.Parse("uniform")
	if err != nil {
		t.Fatal(err)
	}
	w, err := workloads.New(d, p, 7)
	if err != nil {
		t.Fatal(err)
	}
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

// TestEmulatedSession times and verifies every kernel in every mode and on
// every clock; on a GPU it prints what they read.
func TestEmulatedSession(t *testing.T) { everyClock(t, 2) }

// TestSessionClocks is the same on a GPU.
func TestSessionClocks(t *testing.T) {
	if onEmulator() {
		t.Skip("TestEmulatedSession is for the emulated driver")
	}
	everyClock(t, 2)
}

func everyClock(t *testing.T, ranks int) {
	for _, clock := range clocks {
		for _, mode := range plan.Modes() {
			for _, op := range plan.Ops() {
				t.Run(clock+"/"+string(mode)+"/"+string(op), func(t *testing.T) {
					b, s := openSession(t, Options{Loopback: true, Clock: clock, Deadline: 10 * time.Second}, drillProblem(op, mode, ranks))
					for _, k := range kernels.Of(b.Kernels(), op) {
						runOne(t, b, s, k)
					}
				})
			}
		}
	}
}

func runOne(t *testing.T, b *Backend, s *session, k kernels.Kernel) {
	c := k.DefaultConfig(b.Machine(), s.problem)
	if err := k.Check(b.Machine(), s.problem, c); err != nil {
		t.Logf("%s: %v", k.Name, err)
		return
	}
	if err := s.Prepare(t.Context(), c); err != nil {
		t.Fatalf("%s: %v", k.Name, err)
	}
	for i := range 2 {
		v, err := s.Verify(t.Context(), c)
		if err != nil || !v.OK() {
			t.Fatalf("%s, verification %d: %+v %v", k.Name, i, v, err)
		}
		r, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 3, Fold: 4})
		if err != nil {
			t.Fatalf("%s: %v", k.Name, err)
		}
		t.Logf("%s: %v s a call, clock %s", k.Name, r.Seconds, r.Clock)
	}
}

// TestDrill builds a lost signal into the default dispatch: the report names
// who waited for what, and the next candidate runs as if nothing had been.
func TestDrill(t *testing.T) { lostSignal(t) }

// TestEmulatedDrill is the same on the emulated driver.
func TestEmulatedDrill(t *testing.T) { lostSignal(t) }

func lostSignal(t *testing.T) {
	b, s := openSession(t, Options{
		Loopback: true, Deadline: 500 * time.Millisecond,
		Drill: Drill{Rank: 1, Drop: 3, Config: "mode=split"},
	}, drillProblem(plan.Dispatch, plan.Graph, 2))
	k := kernels.Of(b.Kernels(), plan.Dispatch)[0]
	sound := k.DefaultConfig(b.Machine(), s.problem)
	broken := sound.With("mode", "split")
	for _, c := range []plan.Config{sound, broken} {
		if err := s.Prepare(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	_, err := s.Run(t.Context(), broken, kernels.RunSpec{Rounds: 3, Fold: 2})
	var f *kernels.Failure
	if !errors.As(err, &f) || f.Status != kernels.Hang {
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
