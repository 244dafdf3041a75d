package main

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/testfile"
	"github.com/epbench/epbench/workloads"
)

// If steadyEnv is set, a program that a test starts uses the steady backend.
const steadyEnv = "EPBENCH_TEST_STEADY"

// dieEnv is RUNS:DELAY. A program that a test starts kills itself DELAY after call number RUNS of Run.
const dieEnv = "EPBENCH_TEST_DIE"

// steady computes the times of the CPU backend. Measured times would let the load of the host change decisions.
type steady struct {
	*cpu.Backend
	ran func() // called after each Run
}

func (b steady) Open(ctx context.Context, w *workloads.Workload) (kernels.Session, error) {
	s, err := b.Backend.Open(ctx, w)
	if err != nil {
		return nil, err
	}
	best := 1 + (len(w.Spec)+w.Problem.Tokens)%4
	return &steadySession{s, b, best, rand.New(rand.NewPCG(w.Seed, 1))}, nil
}

type steadySession struct {
	kernels.Session
	of   steady
	best int // number of blocks with the shortest time
	rng  *rand.Rand
}

// Run computes times: 50 us for the best number of blocks, 10 us more for each block of difference, 0.5 % noise.
func (s *steadySession) Run(ctx context.Context, c ep.Config, spec kernels.RunSpec) (kernels.Rounds, error) {
	r, err := s.Session.Run(ctx, c, spec)
	s.of.ran()
	if err != nil || r.Beside != nil {
		return r, err
	}
	off := max(1, c.Int("blocks"), c.Int("dispatch.blocks")+c.Int("combine.blocks")) - s.best
	for _, ranks := range r.Seconds {
		seconds := (50e-6 + 10e-6*float64(max(off, -off))) * (1 + 0.005*s.rng.NormFloat64())
		for i := range ranks {
			ranks[i] = seconds
		}
	}
	return r, nil
}

func steadyCPU(ran func()) {
	i := slices.IndexFunc(backendTable, func(e backendEntry) bool { return e.name == "cpu" })
	backendTable[i].open = func(context.Context, string) (kernels.Backend, error) {
		b, err := cpu.Open()
		if err != nil {
			return nil, err
		}
		return steady{b.(*cpu.Backend), ran}, nil
	}
}

func useSteadyBackend(t *testing.T, ran func()) {
	t.Helper()
	before := slices.Clone(backendTable)
	t.Cleanup(func() { backendTable = before })
	steadyCPU(ran)
}

// useSteadyPython gives Python workers a clock that advances by 10 us at each reading. With longer steps, rounds would
// seem longer than the request that ran them, and epbench refuses such rounds.
func useSteadyPython(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	const clock = "import itertools, time\nticks = itertools.count()\ntime.perf_counter = lambda: next(ticks) * 1e-5\n"
	testfile.Write(t, filepath.Join(dir, "sitecustomize.py"), clock)
	t.Setenv("PYTHONPATH", dir)
}

func steadyHere() {
	if os.Getenv(steadyEnv) != "" {
		steadyCPU(dying(os.Getenv(dieEnv)))
	}
}

// dying returns a function that counts calls. With 12:3ms it kills this program 3 ms after the 12th.
func dying(how string) func() {
	runs, after, _ := strings.Cut(how, ":")
	left, _ := strconv.Atoi(runs)
	delay, _ := time.ParseDuration(after)
	return func() {
		if left--; left == 0 {
			self, _ := os.FindProcess(os.Getpid())
			time.AfterFunc(delay, func() { _ = self.Kill() })
		}
	}
}

// TestSteady: measured times equal the computed times, and results are right.
func TestSteady(t *testing.T) {
	runs := 0
	useSteadyBackend(t, func() { runs++ })
	b, _, err := openBackend(t.Context(), "cpu")
	if err != nil {
		t.Fatal(err)
	}
	p := ep.Problem{Op: ep.Dispatch, Mode: ep.Eager, Ranks: 2, Nodes: 1, Hidden: 256, Experts: 8, TopK: 2,
		Tokens: 4, MaxTokens: 4, Dispatch: ep.BF16, Combine: ep.BF16}
	w, err := workloads.Draw("uniform", p, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Open(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := kernels.Of(b.Kernels(), p.Op)[0].DefaultConfig(b.Machine(), p).With("blocks", "4")
	if v, err := s.Verify(t.Context(), prepared(t, s, c)); err != nil || !v.OK() || v.Rows == 0 {
		t.Errorf("%+v, %v", v, err)
	}
	r, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 3, Fold: 2})
	if err != nil || runs != 1 || len(r.Seconds) != 3 || len(r.Seconds[2]) != 2 || math.Abs(r.Seconds[2][0]-50e-6) > 2e-6 {
		t.Errorf("%+v, %v, %d calls of Run; want 3 rounds of 50 us from one call", r, err, runs)
	}
}

func prepared(t *testing.T, s kernels.Session, c ep.Config) ep.Config {
	t.Helper()
	if err := s.Prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}
