//go:build cuda

package drive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

func besideProblem(op ep.Op, mode ep.Mode, beside string) ep.Problem {
	p := drillProblem(op, mode, 2)
	p.Beside, p.Objective = beside, ep.BesideProduct
	return p
}

const smallGemm = "gemm:3,32,64,bf16,4"

// TestSessionBeside covers every op, fused and in phases, in graphs and eagerly. An emulated GPU runs
// two streams at the same time only in eager mode.
func TestSessionBeside(t *testing.T) {
	for _, c := range []struct {
		mode    ep.Mode
		op      ep.Op
		beside  string
		kernels string // for an emulated GPU; a real GPU runs all
	}{
		{ep.Graph, ep.Dispatch, smallGemm, "dispatch dispatch_ll"},
		{ep.Graph, ep.Combine, smallGemm, "combine_final combine_ll"},
		{ep.Graph, ep.Pair, "step:3,32,64,fp8,4", "dispatch_ll+combine_ll"},
		{ep.Eager, ep.Pair, smallGemm, "dispatch_ll+combine_ll"},
	} {
		t.Run(string(c.mode)+"/"+string(c.op), func(t *testing.T) {
			b, s := openSession(t, Options{Loopback: true, Deadline: 20 * time.Second}, besideProblem(c.op, c.mode, c.beside))
			for _, k := range kernels.For(b.Kernels(), s.problem) {
				if onEmulator() && !slices.Contains(strings.Fields(c.kernels), k.Name) {
					continue
				}
				besideConfigs(t, b, s, k)
			}
		})
	}
}

func besideConfigs(t *testing.T, b *Backend, s *session, k kernels.Kernel) {
	t.Helper()
	c := drillConfig(b, k, s.problem)
	if k.Op == ep.Pair && k.Check(b.Machine(), s.problem, c) != nil {
		return
	}
	besideConfig(t, s, c)
	if k.Name == "dispatch_ll" {
		checkPlanned(t, s, c.With("sms", "2"))
	}
	if split := splitOf(c); split.Key() != c.Key() && (k.Op != ep.Pair || k.Name == "dispatch_ll+combine_ll") {
		besideConfig(t, s, split)
	}
}

func besideConfig(t *testing.T, s *session, c ep.Config) {
	t.Helper()
	if err := s.Prepare(t.Context(), c); err != nil {
		t.Errorf("%s: %v", c.Key(), err)
		return
	}
	verify := func() {
		if v, err := s.Verify(t.Context(), c); err != nil || !v.OK() || v.Rows == 0 {
			t.Errorf("%s: %+v, %v", c.Key(), v, err)
		}
	}
	verify()
	r, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 2})
	if err != nil {
		t.Errorf("%s: %v", c.Key(), err)
		return
	}
	if err := r.Beside.Validate(1, 2); err != nil {
		t.Errorf("%s: %v", c.Key(), err)
	}
	verify()
}

// checkPlanned: the product's plan is for the SMs that the calls leave.
func checkPlanned(t *testing.T, s *session, c ep.Config) {
	t.Helper()
	if err := s.Prepare(t.Context(), c); err != nil {
		t.Error(err)
		return
	}
	want := fmt.Sprintf("planned for at most %d SMs", s.ranks.local[0].gpu.sms-2)
	r, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 1})
	if err != nil || !strings.Contains(r.Beside.Amount, want) {
		t.Errorf("%s: %+v, %v; want %q", c.Key(), r.Beside, err, want)
	}
}

// TestSessionOwnPlan: the product keeps its fastest plan, unless the calls leave fewer SMs than the plan needs.
func TestSessionOwnPlan(t *testing.T) {
	b, s := openSession(t, Options{Loopback: true, Deadline: 20 * time.Second}, besideProblem(ep.Pair, ep.Graph, "step:3,32,64,bf16,4"))
	if err := s.Prepare(t.Context(), kernels.For(b.Kernels(), s.problem)[0].DefaultConfig(b.Machine(), s.problem)); err != nil {
		t.Fatal(err)
	}
	if err := s.readyProduct(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := s.ranks.local[0].gpu.sms
	for _, b := range []*products{s.beside, s.beside.attention} {
		if !b.chosen {
			t.Errorf("%s: no plan is chosen", b.of)
		}
		if err := s.choosePlan(t.Context(), b, []int{1, 2}); err != nil {
			t.Fatal(err)
		}
		if len(b.plans) != 3 || b.plans[b.own] == nil {
			t.Errorf("%s: %d plans, want 3; the own plan is for %d SMs and exists: %v", b.of, len(b.plans), b.own, b.plans[b.own] != nil)
		}
		for _, c := range []struct{ own, left, made int }{
			{0, 0, 0}, {0, all - 1, all - 1}, {all - 1, 0, all - 1}, {all - 1, all - 2, all - 2},
			{all - 2, all - 1, all - 2}, // the fastest plan needs fewer SMs than are left
		} {
			b.own = c.own
			code := newCSteps(1, 1)
			b.write(&writer{ranks: s.ranks, out: code.steps[0]}, 0, c.left)
			if got, want := code.steps[0][0].object, uint64(uintptr(unsafe.Pointer(b.plans[c.made][0]))); uint64(got) != want {
				t.Errorf("%s: the own plan is for %d SMs and calls leave %d, but the launch does not use the plan for %d", b.of, c.own, c.left, c.made)
			}
			code.free()
		}
	}
	if got, want := s.beside.amount(), fmt.Sprintf("planned for %d SMs", all-2); strings.Count(got, want) != 2 {
		t.Errorf("%q does not say %q of both products", got, want)
	}
}

// splitOf sets mode=split in kernels with a mode. The receiving grid gets the sending grid's size.
func splitOf(c ep.Config) ep.Config {
	for _, name := range c.Names() {
		prefix, ok := strings.CutSuffix(name, kernels.ModeParam)
		if !ok || prefix != "" && !strings.HasSuffix(prefix, ".") {
			continue
		}
		c = c.With(name, kernels.ModeSplit)
		if _, own := c.Values[prefix+"recv_sms"]; !own {
			continue
		}
		c = c.With(prefix+"recv_sms", c.Values[prefix+"sms"])
		for _, unused := range []string{"receivers", "pause", "early", "wait_sms"} {
			if _, ok := c.Values[prefix+unused]; ok {
				c = c.With(prefix+unused, "0")
			}
		}
	}
	return c
}

func TestSessionBesideTimes(t *testing.T) {
	for _, objective := range ep.Objectives() {
		p := besideProblem(ep.Dispatch, ep.Graph, "copy")
		p.Objective, p.Layout = objective, ep.LayoutMasked
		b, s := openSession(t, Options{Loopback: true, Deadline: 20 * time.Second}, p)
		k := kernels.For(b.Kernels(), p)[0]
		for _, c := range []ep.Config{drillConfig(b, k, p), splitOf(drillConfig(b, k, p))} {
			if err := s.Prepare(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			r, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 2, Fold: 2})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Beside.Validate(2, 2); err != nil {
				t.Error(err)
			}
			if r.Clock != clockStamp || r.Beside.Amount == "" || r.Seconds[0][0] != r.Beside.Seconds(objective)[0][0] {
				t.Errorf("clock %s, amount %q, seconds %v of %+v", r.Clock, r.Beside.Amount, r.Seconds, r.Beside)
			}
		}
	}
}

// TestSessionProducts compares products with float64 sums.
func TestSessionProducts(t *testing.T) {
	for _, spec := range []string{"gemm:5,32,48,bf16,5", "gemm:16,32,64,fp8,5"} {
		for _, batches := range []string{"1", "0"} {
			t.Setenv("EMUL_LT_BATCHES", batches)
			_, s := openSession(t, Options{Loopback: true}, besideProblem(ep.Dispatch, ep.Graph, spec))
			for _, batch := range []int{5, 2} {
				checkProducts(t, s, batch)
			}
		}
	}
}

func checkProducts(t *testing.T, s *session, batch int) {
	t.Helper()
	b := s.beside
	if err := b.plan(batch); err != nil {
		t.Fatal(err)
	}
	code := newCSteps(len(s.ranks.local), b.launchesPerPass())
	defer code.free()
	for i, r := range s.ranks.local {
		w := &writer{ranks: s.ranks, rank: i, out: code.steps[i]}
		for n := range b.launchesPerPass() {
			b.write(w, n, 0)
		}
		code.ranks[i].context, code.ranks[i].stream, code.ranks[i].fault = handle(r.gpu.context), handle(r.stream), r.fault
	}
	if err := runOnce(code); err != nil {
		t.Fatal(err)
	}
	q := b.of
	x, w, out, _ := b.sizes()
	for rank := range s.ranks.local {
		m := b.memory[rank]
		fx, fw, got := b.factors(t, rank, m.x, x), b.factors(t, rank, m.w, w), fetch(t, s.ranks, rank, m.out, out)
		for g := range q.Groups {
			for row := range q.M {
				for col := range q.N {
					want := 0.0
					for k := range q.K {
						want += fx[(g*q.M+row)*q.K+k] * fw[(g*q.N+col)*q.K+k]
					}
					at := (g*q.M+row)*q.N + col
					have := float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(got[2*at:])) << 16))
					if math.Abs(have-want) > 0.01*math.Abs(want)+1e-3 {
						t.Fatalf("%s, batch %d, rank %d, group %d, row %d, column %d: %v, want %v", q, batch, rank, g, row, col, have, want)
					}
				}
			}
		}
	}
}

// factors reads an input matrix and checks that magnitudes are from 0.5 to 1.
func (p *products) factors(t *testing.T, rank int, at cu.DevicePtr, bytes int64) []float64 {
	t.Helper()
	raw := fetch(t, p.ranks, rank, at, bytes)
	var out []float64
	for i := range raw {
		switch {
		case p.of.DType == ep.FP8:
			v := math.Ldexp(float64(8+raw[i]&7), int(raw[i]>>3&15)-10)
			out = append(out, math.Copysign(v, 0.5-float64(raw[i]>>7)))
		case i%2 == 0:
			out = append(out, float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[i:]))<<16)))
		}
	}
	seen := map[float64]bool{}
	for _, v := range out {
		if math.Abs(v) < 0.5 || math.Abs(v) >= 1 {
			t.Fatalf("a factor of %s is %v", p.of, v)
		}
		seen[v] = true
	}
	if len(seen) < 8 {
		t.Errorf("only %d different factors", len(seen))
	}
	return out
}

// TestSessionWithoutCublasLt: the error names a remedy, and a copy still runs. An opened library stays open, so the
// test has its own process.
func TestSessionWithoutCublasLt(t *testing.T) {
	if os.Getenv("EPBENCH_TEST_NO_CUBLASLT") == "" {
		t.Skip("set EPBENCH_TEST_NO_CUBLASLT=1 to run this test alone, in a separate process")
	}
	t.Setenv("EPBENCH_CUBLASLT", t.TempDir())
	b, err := Open(Options{Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	_, err = b.Open(t.Context(), drillWorkload(t, besideProblem(ep.Dispatch, ep.Graph, smallGemm)))
	for _, part := range []string{"no cuBLASLt here", "EPBENCH_CUBLASLT", "--beside copy"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	s, err := b.Open(t.Context(), drillWorkload(t, besideProblem(ep.Dispatch, ep.Graph, "copy")))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// TestDrillBeside: a lost signal beside a product is reported.
func TestDrillBeside(t *testing.T) {
	b, s := openSession(t, Options{
		Loopback: true, Deadline: 500 * time.Millisecond, Drill: Drill{Rank: 1, Drop: 3, Config: "mode=split"},
	}, besideProblem(ep.Dispatch, ep.Eager, smallGemm))
	k := kernels.Of(b.Kernels(), ep.Dispatch)[0]
	sound := drillConfig(b, k, s.problem)
	for _, c := range []ep.Config{sound, splitOf(sound)} {
		if err := s.Prepare(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Run(t.Context(), sound, kernels.RunSpec{Rounds: 1, Fold: 2}); err != nil {
		t.Fatal(err)
	}
	for _, attempt := range []func() error{
		func() error {
			_, err := s.Run(t.Context(), splitOf(sound), kernels.RunSpec{Rounds: 1, Fold: 2})
			return err
		},
		func() error { _, err := s.Verify(t.Context(), splitOf(sound)); return err },
	} {
		var f *kernels.Failure
		if err := attempt(); !errors.As(err, &f) || f.Status != ep.Hang || !strings.Contains(f.Reason, "expert 2") {
			t.Errorf("a lost signal gave %v, want a hang that names expert 2", err)
		}
		if v, err := s.Verify(t.Context(), sound); err != nil || !v.OK() {
			t.Errorf("after the hang: %+v, %v", v, err)
		}
	}
}

func fetch(t *testing.T, r *rankSet, rank int, at cu.DevicePtr, bytes int64) []byte {
	t.Helper()
	out := make([]byte, bytes)
	err := r.local[rank].gpu.do(func() error { return cu.MemcpyDtoH(unsafe.Pointer(&out[0]), at, bytes) })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSessionExplain: Explain returns an effect of the calls, of each load, and of a plan for the SMs that calls leave.
func TestSessionExplain(t *testing.T) {
	p := besideProblem(ep.Dispatch, ep.Graph, smallGemm)
	p.Layout = ep.LayoutRank // emulated in a sixth of the time
	b, s := openSession(t, Options{Loopback: true, Deadline: 20 * time.Second}, p)
	k := kernels.For(b.Kernels(), p)[0]
	c := drillConfig(b, k, s.problem)
	checkEffects(t, s, c, "the calls", "SMs: for each call 4 blocks", "bandwidth: a copy engine", "both: for each call 4 blocks")
	few := fewestThreads(b, k, s.problem, k.DefaultWithin(b.Machine(), s.problem, 2))
	checkEffects(t, s, few, "the calls", "SMs: nothing runs beside the product, which is planned for 2 SMs", "SMs: for each call 2 blocks", "bandwidth: a copy engine", "both: for each call 2 blocks")
	if v, err := s.Verify(t.Context(), c); err != nil || !v.OK() {
		t.Errorf("after it: %+v, %v", v, err)
	}
}

func checkEffects(t *testing.T, s *session, c ep.Config, words ...string) {
	t.Helper()
	if err := s.Prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	effects, err := s.Explain(t.Context(), c, 6)
	if err != nil || len(effects) != len(words) {
		t.Fatalf("%s: %d effects (error %v), want %d", c.Key(), len(effects), err, len(words))
	}
	for i, word := range words {
		e := effects[i]
		if !strings.HasPrefix(e.Load, word) || len(e.Alone) != 6 || len(e.With) != 6 || !(slices.Min(e.Alone) > 0 && slices.Min(e.With) > 0) {
			t.Errorf("effect %d: %+v, want %q and 6 rounds", i, e, word)
		}
	}
}
