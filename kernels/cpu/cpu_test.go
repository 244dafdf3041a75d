package cpu

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

func problem(op ep.Op) ep.Problem {
	return ep.Problem{Op: op, Mode: ep.Eager, Ranks: 4, Nodes: 1, Hidden: 256, Experts: 16, TopK: 4,
		Tokens: 33, MaxTokens: 33, Dispatch: ep.BF16, Combine: ep.BF16}
}

func draw(t testing.TB, p ep.Problem, routing string) *workloads.Workload {
	t.Helper()
	w, err := workloads.Draw(routing, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func session(t *testing.T, p ep.Problem) (*Session, ep.Config) {
	t.Helper()
	b := opened(t)
	s, err := b.Open(t.Context(), draw(t, p, "uniform"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	c := kernels.Of(b.Kernels(), p.Op)[0].DefaultConfig(b.Machine(), p)
	if err := s.Prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return s.(*Session), c
}

func TestCheckNamesTheBound(t *testing.T) {
	m, p := machine(), problem(ep.Dispatch)
	c := defaults("dispatch")(m, p)
	for _, bad := range []struct {
		change func(*ep.Problem, *ep.Config)
		says   string
	}{
		{func(p *ep.Problem, _ *ep.Config) { p.Ranks = 32 }, "ranks: 32 is above 16"},
		{func(p *ep.Problem, _ *ep.Config) { p.Nodes = 2 }, "nodes: 2, but the cpu backend runs on one node"},
		{func(p *ep.Problem, _ *ep.Config) { p.Mode = ep.Graph }, `mode: "graph", but the cpu backend knows only "eager"`},
		{func(p *ep.Problem, _ *ep.Config) { p.Experts = 65536 }, "experts: 65536 is above 65535"},
		{func(_ *ep.Problem, c *ep.Config) { *c = c.With("blocks", "0") }, "blocks: 0 is outside 1 to 64"},
		{func(_ *ep.Problem, c *ep.Config) { *c = c.With("blocks", "many") }, "blocks: many is outside"},
		{func(_ *ep.Problem, c *ep.Config) { *c = c.With("blocks", "2").With("wait_blocks", "2") }, "wait_blocks: 2 is outside 0 to 1"},
		{func(_ *ep.Problem, c *ep.Config) { *c = c.With("chunk_bytes", "1000") }, "chunk_bytes: 1000 is not a multiple of 16"},
		{func(_ *ep.Problem, c *ep.Config) { *c = c.With("chunk_bytes", "8") }, "chunk_bytes: 8 is outside 16 to 1048576"},
		{func(_ *ep.Problem, c *ep.Config) { *c = c.With("tile_tokens", "0") }, "tile_tokens: 0 is outside 1 to"},
		{func(_ *ep.Problem, c *ep.Config) { *c = c.With("mode", "both") }, `mode: "both", use fused or split`},
		{func(_ *ep.Problem, c *ep.Config) { *c = c.With("algo", "2") }, `algo: "2", use direct or dedup`},
		{func(_ *ep.Problem, c *ep.Config) { *c = c.With("sms", "2") }, "sms: dispatch has no such parameter"},
		{func(_ *ep.Problem, c *ep.Config) { c.Values = nil }, "blocks: not set"},
	} {
		q, d := p, c
		bad.change(&q, &d)
		if err := check(m, q, d); err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%v does not say %q", err, bad.says)
		}
	}
	for _, k := range Kernels() {
		if err := k.Check(m, p, k.DefaultConfig(m, p)); err != nil {
			t.Errorf("%s: default is illegal: %v", k.Name, err)
		}
	}
}

func TestPairsNeedMatchingDispatch(t *testing.T) {
	p := problem(ep.Pair)
	k := kernels.Of(Kernels(), ep.Pair)[0]
	c := k.DefaultConfig(machine(), p)
	for _, x := range []struct {
		dispatch, combine ep.Value
		legal             bool
	}{{algoDirect, algoDirect, true}, {algoDedup, algoDirect, true}, {algoDedup, algoDedup, true}, {algoDirect, algoDedup, false}} {
		err := k.Check(machine(), p, c.With("dispatch.algo", x.dispatch).With("combine.algo", x.combine))
		if (err == nil) != x.legal {
			t.Errorf("dispatch %s, combine %s: %v", x.dispatch, x.combine, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	b := opened(t)
	for _, bad := range []struct {
		change func(*workloads.Workload)
		says   string
	}{
		{func(w *workloads.Workload) { w.Problem.Experts = 17 }, "experts: 17 is not a multiple of 4 ranks"},
		{func(w *workloads.Workload) { w.Problem.Mode = ep.Cold }, "mode:"},
		{func(w *workloads.Workload) { w.Ranks = w.Ranks[:3] }, "routing of 3 ranks"},
		{func(w *workloads.Workload) { w.Ranks[1].Tokens = 34 }, "rank 1: 34 tokens, the buffers hold 33"},
		{func(w *workloads.Workload) { w.Ranks[2].Weights = nil }, "rank 2: 132 experts and 0 weights"},
		{func(w *workloads.Workload) { w.Ranks[0].Experts[5] = 16 }, "rank 0: token 1: expert 16 is outside -1 to 15"},
		{func(w *workloads.Workload) { w.Ranks[0].Experts[5] = w.Ranks[0].Experts[4] }, "selected twice"},
	} {
		w := draw(t, problem(ep.Dispatch), "uniform")
		bad.change(w)
		s, err := b.Open(t.Context(), w)
		if err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%v does not say %q", err, bad.says)
		}
		if s != nil {
			t.Errorf("%s: Open returned a session and an error", bad.says)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	w := draw(t, problem(ep.Pair), "uniform")
	m := machine()
	m.Memory = 1 << 20
	if err := checkWorkload(m, w); err == nil || !strings.HasPrefix(err.Error(), "tokens: ") {
		t.Errorf("a workload beyond memory: %v", err)
	}
}

func TestClosingFreesWorkers(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		b := opened(t)
		s, err := b.Open(t.Context(), draw(t, problem(ep.Pair), "uniform"))
		if err != nil {
			t.Fatal(err)
		}
		c := kernels.Of(b.Kernels(), ep.Pair)[0].DefaultConfig(b.Machine(), problem(ep.Pair))
		if err := errors.Join(s.Prepare(t.Context(), c), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// TestCancelInMidRun: Run returns soon after a cancel, and the session stays usable.
func TestCancelInMidRun(t *testing.T) {
	s, c := session(t, problem(ep.Pair))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := s.Run(ctx, c, kernels.RunSpec{Rounds: 1, Fold: 1 << 30})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("ended after %v", d)
	}
	if v, err := s.Verify(t.Context(), c); err != nil || !v.OK() {
		t.Errorf("afterwards: %+v %v", v, err)
	}
}

// TestThousandIterations runs many pairs without a reset of memory, then verifies one pair.
func TestThousandIterations(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 100
	}
	p := problem(ep.Pair)
	p.Tokens, p.MaxTokens = 9, 9
	s, c := session(t, p)
	for _, algo := range []ep.Value{algoDirect, algoDedup} {
		for _, mode := range []ep.Value{modeFused, modeSplit} {
			for _, op := range []string{"dispatch.", "combine."} {
				c = c.With(op+"algo", algo).With(op+"mode", mode).With(op+"blocks", "2").With(op+"wait_blocks", "1")
			}
			if err := s.Prepare(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: n}); err != nil {
				t.Fatal(err)
			}
			if v, err := s.Verify(t.Context(), c); err != nil || !v.OK() || v.Rows == 0 {
				t.Errorf("%s after %d iterations: %+v %v", c.Key(), n, v, err)
			}
		}
	}
}

func TestSignalsAreReset(t *testing.T) {
	s, c := session(t, problem(ep.Pair))
	if _, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 2, Fold: 7}); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.ranks {
		if n := r.rearm(); n != 0 {
			t.Errorf("rank %d: %d count words were not at the sentinel", r.id, n)
		}
	}
}

// TestLeftoverSignalIsFound: a call that leaves an unread signal fails, because the next call would read it.
func TestLeftoverSignalIsFound(t *testing.T) {
	s, _ := session(t, problem(ep.Dispatch))
	stray := stage{launch{blocks: 1}, func(w *worker, _ launch, set int) bool {
		w.r.inbox[set].counts[0].Store(3)
		return true
	}}
	_, err := s.start(t.Context(), []stage{stray}, kernels.RunSpec{Rounds: 1, Fold: 1}, noFault)
	var f *kernels.Failure
	if !errors.As(err, &f) || f.Status != ep.Mismatch {
		t.Errorf("got %v", err)
	}
}

func TestEmptyKernelIsShort(t *testing.T) {
	b := opened(t)
	read, err := b.(kernels.Clocker).Empty(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := read["wall"]; !(s > 0) || s > 0.1 || math.IsNaN(s) {
		t.Errorf("an empty kernel takes %g s", s)
	}
}

func TestABIIsAHash(t *testing.T) {
	a := opened(t)
	first, second := a.(kernels.Versioned).ABI(), a.(kernels.Versioned).ABI()
	if first != second || len(first) != 16 {
		t.Errorf("%q, then %q", first, second)
	}
}

func opened(t testing.TB) kernels.Backend {
	t.Helper()
	b, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
