package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// interpreter is the program that python3 starts. On some hosts python3 is a script that first looks for a Python,
// which takes longer than Python's own start, and the tests start Python more than a hundred times.
var interpreter = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-I", "-S", "-c", "import sys; print(sys.executable)").Output()
	return strings.TrimSpace(string(out)), err
})

// python returns a Python interpreter. It calls Stat on the Python files, so that go test uses no cached result after
// one of them changed.
func python(t *testing.T) string {
	t.Helper()
	found, err := interpreter()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("no python3 here")
	}
	if err != nil || found == "" {
		t.Fatalf("python3 does not say which program it is: %q, %v", found, err)
	}
	for _, dir := range []string{"../../native/python/workers", "../../native/python/workers/harness", "../../examples/workers", "testdata"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.py"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no Python files in %s: %v", dir, err)
		}
		for _, f := range files {
			if _, err := os.Stat(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	return found
}

// tryToy starts a Python file as three ranks. `drill` names a fault to inject. The file needs no installed packages, so
// Python runs with -S, which halves the time of its start on some hosts.
func tryToy(t *testing.T, file, drill string) (*Backend, *heard, error) {
	t.Helper()
	program := python(t)
	limits := DefaultLimits()
	limits.Round = time.Minute
	shell := "export EPBENCH_TEST_DRILL=" + drill + " EPBENCH_FAULT=" + drill + "; ../../examples/workers/ranks.sh 3 " + program + " -S " + file
	said := &heard{}
	b, err := Open(t.Context(), Command{Argv: []string{"sh", "-c", shell}, Listen: Loopback, Said: said.line}, limits, nil)
	if err == nil {
		t.Cleanup(func() { b.Close() })
	}
	return b, said, err
}

func toyProblem(op ep.Op) ep.Problem {
	return ep.Problem{Op: op, Mode: ep.Graph, Ranks: 3, Nodes: 1, Hidden: 64, Experts: 9, TopK: 3,
		Tokens: 5, MaxTokens: 5, Dispatch: ep.BF16, Combine: ep.BF16, Layout: ep.LayoutRank}
}

func toySession(t *testing.T, b kernels.Backend, op ep.Op) (kernels.Session, ep.Config) {
	t.Helper()
	p := toyProblem(op)
	return openProblem(t, b, p, "zipf:1.0+masked:0.2"), kernels.Of(b.Kernels(), op)[0].DefaultConfig(b.Machine(), p)
}

const toyFile = "../../examples/workers/toy.py"

// TestToyWorker verifies and times the example library toy.py.
func TestToyWorker(t *testing.T) {
	b, _ := openToy(t, toyFile, "")
	if w := b.Kernels()[1].Work; w.Key(ep.Problem{Dispatch: ep.BF16}) != "rank plain +reduction" || w.Library != "toy" {
		t.Errorf("work %+v", w)
	}
	for _, k := range b.Kernels() {
		p := ep.Problem{Op: k.Op, Mode: ep.Cold, Dispatch: ep.BF16, Layout: k.Layouts[0]}
		if err := k.Check(b.Machine(), p, k.DefaultConfig(b.Machine(), p)); err == nil || !strings.Contains(err.Error(), "mode") {
			t.Errorf("%s, mode cold: %v, want it refused", k.Op, err)
		}
	}
	for _, op := range ep.Exchanges() {
		s, c := toySession(t, b, op)
		if v, err := s.Verify(t.Context(), c); err != nil || !v.OK() || v.Rows == 0 {
			t.Errorf("%s: %+v, %v", op, v, err)
		}
		if r, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 2, Fold: 3}); err != nil || len(r.Seconds) != 2 || len(r.Seconds[0]) != 3 {
			t.Errorf("%s: %+v, %v", op, r, err)
		}
		s.Close()
	}
	toyLayer(t, b)
	s, c := toySession(t, b, ep.Dispatch)
	var f *kernels.Failure
	if err := s.Prepare(t.Context(), c.With("messages", "0")); !errors.As(err, &f) || f.Status != ep.Illegal {
		t.Errorf("messages=0: %v, want illegal", err)
	}
	if _, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 1}); err != nil {
		t.Errorf("after an illegal candidate: %v", err)
	}
}

func toyLayer(t *testing.T, b *Backend) {
	t.Helper()
	p := toyProblem(ep.Layer)
	p.Intermediate, p.Tokens, p.MaxTokens, p.Layout = 16, 4, 4, ep.LayoutExpert
	s, c := openProblem(t, b, p, "ragged:0:4"), kernels.Of(b.Kernels(), ep.Layer)[0].DefaultConfig(b.Machine(), p)
	if v, err := s.Verify(t.Context(), c); err != nil || !v.OK() || v.Rows == 0 {
		t.Errorf("layer: %+v, %v", v, err)
	}
	r, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 2, Fold: 1})
	if err != nil || len(r.Seconds) != 2 || len(r.Stages) != 3 || r.Stages[1].Name != "experts" {
		t.Errorf("layer: %+v, %v", r, err)
	}
	s.Close()
}

func TestToyOverIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	l.Close()
	argv := []string{"../../examples/workers/ranks.sh", "3", python(t), toyFile}
	b, err := Open(t.Context(), Command{Argv: argv, Listen: "[::1]:0"}, DefaultLimits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, c := toySession(t, b, ep.Dispatch)
	if v, err := s.Verify(t.Context(), c); err != nil || !v.OK() {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestToyDrills: rank 1 misbehaves for one candidate. The failure names the rank, no process is left, and the
// next candidate runs.
func TestToyDrills(t *testing.T) {
	for _, c := range []struct {
		drill  string
		status ep.Status
		reason string
	}{
		{"kill", ep.Crash, "rank 1 of 3"},
		{"hang", ep.Hang, "while the others wait"},
		{"stop", ep.Hang, "has been silent for"},
		{"raise", ep.Crash, "RuntimeError: CUDA error: invalid configuration argument"},
		{"captures", ep.LaunchFailed, "rank 1: capturing a CUDA graph failed 2 times: RuntimeError: CUDA error: operation failed"},
	} {
		t.Run(c.drill, func(t *testing.T) {
			t.Parallel()
			b, _ := openToy(t, "testdata/drill.py", c.drill)
			s, good := toySession(t, b, ep.Dispatch)
			mark := b.proc.group.mark
			bad := good.With("messages", "4")
			if err := s.Prepare(t.Context(), bad); err != nil {
				t.Fatal(err)
			}
			if c.status == ep.Hang {
				b.proc.timeout = untilLate(b.proc.group, c.reason)
			}
			_, err := s.Run(t.Context(), bad, kernels.RunSpec{Rounds: 1, Fold: 1})
			var f *kernels.Failure
			if !errors.As(err, &f) || f.Status != c.status || !strings.Contains(f.Reason, c.reason) || !strings.Contains(f.Reason, "rank 1") {
				t.Fatalf("got %v, want %s with %q and the rank", err, c.status, c.reason)
			}
			if c.status == ep.Crash && !strings.HasPrefix(f.Reason, "run: rank 1 of 3") {
				t.Errorf("%v: another rank comes first", err)
			}
			if left := marked(mark); len(left) > 0 {
				t.Errorf("processes left: %v", left)
			}
			if _, err := s.Run(t.Context(), good, kernels.RunSpec{Rounds: 1, Fold: 1}); err != nil {
				t.Errorf("the next candidate: %v", err)
			}
		})
	}
}

// TestToySticky: after an error that every later call would return, the next candidate runs in a new process.
func TestToySticky(t *testing.T) {
	b, _ := openToy(t, "testdata/drill.py", "sticky")
	s, good := toySession(t, b, ep.Dispatch)
	var f *kernels.Failure
	if err := s.Prepare(t.Context(), good.With("messages", "4")); !errors.As(err, &f) || f.Status != ep.Crash || !strings.Contains(f.Reason, "illegal memory access") {
		t.Errorf("got %v, want a crash", err)
	}
	if _, err := s.Run(t.Context(), good, kernels.RunSpec{Rounds: 1, Fold: 1}); err != nil || b.Restarts() != 1 {
		t.Errorf("the next candidate: %v, %d restarts", err, b.Restarts())
	}
}

// TestToyAlone: one rank fails while the other ranks exchange data with it. The failure names that rank.
func TestToyAlone(t *testing.T) {
	for rank := range 3 {
		t.Run(fmt.Sprint(rank), func(t *testing.T) {
			t.Parallel()
			b, _ := openToy(t, "testdata/drill.py", fmt.Sprint("alone", rank))
			s, good := toySession(t, b, ep.Dispatch)
			_, err := s.Run(t.Context(), good.With("messages", "4"), kernels.RunSpec{Rounds: 1, Fold: 1})
			var f *kernels.Failure
			want := fmt.Sprintf("rank %d of 3", rank)
			if !errors.As(err, &f) || f.Status != ep.LaunchFailed || !strings.Contains(f.Reason, want) || !strings.Contains(f.Reason, "too many resources") {
				t.Errorf("got %v, want launch with %q", err, want)
			}
			for _, op := range ep.Exchanges() {
				s, c := toySession(t, b, op)
				if v, err := s.Verify(t.Context(), c); err != nil || !v.OK() {
					t.Errorf("afterwards %s: %+v, %v", op, v, err)
				}
			}
		})
	}
}

// TestToyRefusals: 200 candidates are refused, one after the other. No refusal counts as a failure of a later
// candidate.
func TestToyRefusals(t *testing.T) {
	b, _ := openToy(t, toyFile, "")
	s, c := toySession(t, b, ep.Dispatch)
	for i := range 200 {
		var f *kernels.Failure
		if err := s.Prepare(t.Context(), c.With("messages", ep.Value(fmt.Sprint(-i)))); !errors.As(err, &f) || f.Status != ep.Illegal {
			t.Fatalf("%d: %v, want illegal", i, err)
		}
	}
	if _, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 1}); err != nil || b.Restarts() > 0 {
		t.Errorf("%v, %d restarts", err, b.Restarts())
	}
	if w := b.proc.group.firstTrouble(); w != nil {
		t.Errorf("trouble is left: %+v", w)
	}
}

func TestToyCaptureAgain(t *testing.T) {
	b, _ := openToy(t, "testdata/drill.py", "capture")
	s, c := toySession(t, b, ep.Dispatch)
	for range 2 {
		if r, err := s.Run(t.Context(), c.With("messages", "4"), kernels.RunSpec{Rounds: 2, Fold: 1}); err != nil || len(r.Seconds) != 2 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if b.Restarts() != 0 {
		t.Errorf("%d restarts", b.Restarts())
	}
}

// untilLate returns a timeout that ends a request when lateRanks names rank 1 and contains `says`.
func untilLate(g *group, says string) timeout {
	return func(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
		ctx, cancel := timed(ctx, time.Minute)
		ctx, end := context.WithCancelCause(ctx)
		go func() {
			for ctx.Err() == nil {
				if late := g.lateRanks(); strings.HasPrefix(late, "rank 1 of") && strings.Contains(late, says) {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			end(errSilent)
		}()
		return ctx, cancel
	}
}

// TestLostLink: a rank whose connection breaks ends, and the failure does not name it as the cause.
func TestLostLink(t *testing.T) {
	const program = `
import sys, types
sys.path.insert(0, "../../native/python/workers")
from harness.ranks import Ranks

class Link:
    def __init__(self, error): self.error = error
    def recv(self): raise self.error
    def send(self, thing): raise self.error

for error in (EOFError(), ConnectionResetError(), BrokenPipeError()):
    for rank in (0, 1):
        r = Ranks.__new__(Ranks)
        told = []
        r.rank, r.link, r.links, r.number = rank, Link(error), {1: Link(error)}, 0
        r.line = types.SimpleNamespace(waiting=False, follows=told.append)
        for call in (r.share, r.collect):
            try:
                call(None)
            except SystemExit as e:
                assert "another rank is gone" in str(e) and told.pop() == "another rank is gone", e
            else:
                raise AssertionError((error, rank, call))
`
	if out, err := exec.Command(python(t), "-c", program).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestStrangers: rank 0 refuses strangers, and a rank ends after a line that is not JSON.
func TestStrangers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, python(t), "testdata/strangers.py").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "refused\n") || !strings.Contains(string(out), "[('zero',), {'one': [1.5, b'\\x00\\xff', None]}]") ||
		!strings.Contains(string(out), "rank 1 ended with 1\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestToyLies: verification finds a wrong bit, a lost row, a lost summand, an infinity and a NaN.
func TestToyLies(t *testing.T) {
	for drill, op := range map[string]ep.Op{"wrong": ep.Dispatch, "lost": ep.Dispatch, "sum": ep.Combine, "infinite": ep.Combine, "nan": ep.Combine} {
		b, _ := openToy(t, "testdata/drill.py", drill)
		s, c := toySession(t, b, op)
		v, err := s.Verify(t.Context(), c.With("messages", "4"))
		if err != nil || v.OK() || v.Detail == "" || (drill == "infinite" || drill == "nan") && v.MaxErr < 1 {
			t.Errorf("%s: %+v, %v", drill, v, err)
		}
		b.Close()
	}
}

func openToy(t *testing.T, file, drill string) (*Backend, *heard) {
	t.Helper()
	b, said, err := tryToy(t, file, drill)
	if err != nil {
		t.Fatal(err)
	}
	return b, said
}
