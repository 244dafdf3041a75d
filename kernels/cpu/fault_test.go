package cpu

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/conform"
	"github.com/epbench/epbench/tune/ep"
)

func brokenCase(op ep.Op) conform.Case {
	return conform.Case{Routing: "uniform", Seed: 3, Problem: ep.Problem{
		Op: op, Mode: ep.Eager, Ranks: 4, Nodes: 1, Hidden: 256, Experts: 16, TopK: 4,
		Tokens: 8, MaxTokens: 8, Dispatch: ep.FP8, Combine: ep.BF16,
	}}
}

const hangsEnd = time.Second

func breakCPU(f fault, pick func(ep.Config) bool) *Backend {
	return &Backend{machine: machine(), deadline: longestWait, faulty: func(c ep.Config) fault {
		if pick(c) {
			return f
		}
		return noFault
	}}
}

// endings maps each fault to the status that it must cause.
var endings = map[fault]ep.Status{
	dropToken: ep.Mismatch,
	swapRows:  ep.Mismatch,
	earlyRead: ep.Mismatch,
	noSignal:  ep.Hang,
	panicking: ep.Crash,
}

// TestFaultsAreCaught injects each fault into each op and algorithm. The next candidate must pass.
func TestFaultsAreCaught(t *testing.T) {
	for f, want := range endings {
		for _, op := range ep.Exchanges() {
			for _, algo := range []ep.Value{"direct", "dedup"} {
				if raceEnabled && f == earlyRead {
					continue // a data race, which the race detector reports
				}
				t.Run(fmt.Sprintf("%s/%s/%s", f, op, algo), func(t *testing.T) { catch(t, f, want, op, algo) })
			}
		}
	}
}

// catch injects fault f into mode=split and checks the status. The fused candidate must then pass.
func catch(t *testing.T, f fault, want ep.Status, op ep.Op, algo ep.Value) {
	broken := func(c ep.Config) bool { return strings.Contains(c.Key(), "mode=split") }
	b := breakCPU(f, broken)
	c := brokenCase(op)
	w, err := c.Workload()
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Open(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	good := kernels.Of(b.Kernels(), op)[0].DefaultConfig(b.Machine(), c.Problem)
	bad := good
	for name := range good.Values {
		switch name[strings.LastIndex(name, ".")+1:] {
		case "algo":
			good, bad = good.With(name, algo), bad.With(name, algo)
		case "mode":
			bad = bad.With(name, "split")
		}
	}
	if err := s.Prepare(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	if f == noSignal {
		b.deadline = hangsEnd
	}
	if got, reason := end(t, s, bad); got != want {
		t.Errorf("the broken candidate ended as %s (%s), want %s", got, reason, want)
	}
	b.deadline = longestWait
	if got, reason := end(t, s, good); got != ep.OK {
		t.Errorf("the candidate without a fault, which ran after the faulty candidate, ended as %s (%s)", got, reason)
	}
}

func end(t *testing.T, s kernels.Session, c ep.Config) (ep.Status, string) {
	t.Helper()
	if err := s.Prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	v, err := s.Verify(t.Context(), c)
	var f *kernels.Failure
	switch {
	case errors.As(err, &f):
		return f.Status, f.Reason
	case err != nil:
		t.Fatal(err)
	case !v.OK():
		return ep.Mismatch, v.Detail
	case v.Rows == 0:
		t.Fatal("nothing was compared")
	}
	return ep.OK, ""
}

// TestHangNamesTheRank injects a hang into the first config of a case only, because each hang waits for the deadline.
func TestHangNamesTheRank(t *testing.T) {
	for op, want := range map[ep.Op]string{
		ep.Dispatch: "in dispatch_wait for expert 15 from rank 0",
		ep.Combine:  "in combine_wait for expert 3 from rank 0",
	} {
		b := breakCPU(noSignal, nil)
		broken := kernels.Of(b.Kernels(), op)[0].DefaultConfig(b.Machine(), brokenCase(op).Problem)
		b = breakCPU(noSignal, func(c ep.Config) bool { return c.Key() == broken.Key() })
		b.deadline = hangsEnd
		c := brokenCase(op)
		r, err := conform.RunCase(t.Context(), b, conform.Case{Name: "hang", Problem: c.Problem, Routing: c.Routing, Seed: 1, Iterations: 1, Words: 1})
		if err != nil {
			t.Fatal(err)
		}
		first := r.Failed()[0]
		if first.Status != ep.Hang || !strings.Contains(first.Reason, want) || !strings.HasPrefix(first.Reason, "rank ") {
			t.Errorf("%s: %s: %q does not say %q", op, first.Status, first.Reason, want)
		}
	}
}
