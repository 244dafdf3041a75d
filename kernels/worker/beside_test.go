package worker

import (
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// tick is the number of seconds by which the clock of testdata/ticks.py advances at each reading. It is a power of two,
// so that sums are exact. It is small, because epbench refuses times that are longer than the real time.
const tick = 1.0 / (1 << 18)

// openTicking starts a toy worker with a clock of ticks.
func openTicking(t *testing.T, file string) *Backend {
	t.Helper()
	b, _ := openToy(t, "testdata/ticks.py "+file, "")
	return b
}

// besideSession opens toySession's workload with a product.
func besideSession(t *testing.T, b kernels.Backend, op ep.Op, product string, o ep.Objective) (kernels.Session, ep.Config) {
	t.Helper()
	q, err := ep.ParseProduct(product)
	if err != nil {
		t.Fatal(err)
	}
	p := toyProblem(op).WithProduct(q, 8, o)
	return openProblem(t, b, p, "zipf:1.0+masked:0.2"), kernels.Of(b.Kernels(), op)[0].DefaultConfig(b.Machine(), p)
}

// TestToyBeside: a dispatch or a combine takes one tick. A pair takes two. The product beside three calls takes one
// tick when it runs alone, so 1/3 tick for each call.
func TestToyBeside(t *testing.T) {
	b := openTicking(t, toyFile)
	for _, c := range []struct {
		op      ep.Op
		product string
		halves  float64
	}{{ep.Dispatch, "gemm", 1}, {ep.Combine, "copy", 1}, {ep.Pair, "gemm:4,32,64,fp8,3", 2}} {
		s, cfg := besideSession(t, b, c.op, c.product, ep.BesideProduct)
		if v, err := s.Verify(t.Context(), cfg); err != nil || !v.OK() || v.Rows == 0 {
			t.Errorf("%s: %+v, %v", c.op, v, err)
		}
		r, err := s.Run(t.Context(), cfg, kernels.RunSpec{Rounds: 2, Fold: 3})
		if err != nil {
			t.Fatalf("%s: %v", c.op, err)
		}
		if r.Beside == nil || r.Beside.Validate(2, 3) != nil || r.Beside.Amount == "" {
			t.Fatalf("%s: %+v", c.op, r.Beside)
		}
		for rank := range 3 {
			near(t, string(c.op)+" alone", r.Beside.Call[1][rank], c.halves*tick)
			near(t, string(c.op)+": product alone", r.Beside.Product[1][rank], tick/3)
			near(t, string(c.op)+": seconds", r.Seconds[1][rank], r.Beside.Cost()[1][rank])
			if both := r.Beside.Both[1][rank]; both < r.Beside.CallIn[1][rank] || both < r.Beside.ProductIn[1][rank] {
				t.Errorf("%s: call and product at the same time take %g s, less than the call or the product: %+v", c.op, both, r.Beside)
			}
		}
		s.Close()
	}
}

// TestSharedAlike: the product's share (its launches beside one call) does not depend on the config that runs first.
// The share takes twice as long as a default dispatch: 2 x 2 ticks. A trial of 32 launches takes one tick, so the share
// is 4 x 32 = 128 launches.
func TestSharedAlike(t *testing.T) {
	b := openTicking(t, "testdata/paced.py")
	for _, messages := range []ep.Value{"4", "1"} {
		s, cfg := besideSession(t, b, ep.Dispatch, "gemm", ep.BesideProduct)
		r, err := s.Run(t.Context(), cfg.With("messages", messages), kernels.RunSpec{Rounds: 1, Fold: 1})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(r.Beside.Amount, "128 of ") {
			t.Errorf("messages=%s runs first: %s, want 128", messages, r.Beside.Amount)
		}
		s.Close()
	}
}

// TestToyInPhases: a dispatch or a combine has three ticks, sending, product and receiving. So a pair takes 6.
func TestToyInPhases(t *testing.T) {
	b := openTicking(t, "testdata/split.py")
	s, cfg := besideSession(t, b, ep.Pair, "gemm", ep.Alone)
	r, err := s.Run(t.Context(), cfg, kernels.RunSpec{Rounds: 1, Fold: 2})
	if err != nil || r.Beside == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	for rank := range 3 {
		near(t, "both", r.Beside.Both[0][rank], 6*tick)
		near(t, "the halves", r.Beside.CallIn[0][rank], 4*tick)
		near(t, "the product between them", r.Beside.ProductIn[0][rank], 2*tick)
		near(t, "done", r.Beside.Done[0][rank], 1)
		near(t, "seconds of objective alone", r.Seconds[0][rank], r.Beside.Call[0][rank])
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

func TestBesideRefused(t *testing.T) {
	none, _ := openToy(t, "testdata/split.py", "none")
	some, _ := openToy(t, toyFile, "")
	for _, c := range []struct {
		b             *Backend
		product, says string
	}{
		{none, "gemm", "beside: toy 1 cannot run matrix products at the same time as its calls; leave --beside out"},
		{some, "step", "beside: toy 1 cannot run step at the same time as its calls; use gemm or copy"},
		{openPython(t, ""), "copy", "cannot run matrix products at the same time as its calls"},
	} {
		q, err := ep.ParseProduct(c.product)
		if err != nil {
			t.Fatal(err)
		}
		w := drawn(t, toyProblem(ep.Pair).WithProduct(q, 8, ep.BesideProduct), "uniform")
		if _, err := c.b.Open(t.Context(), w); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.product, err, c.says)
		}
	}
}

// TestStreams runs streams.py, which simulates two streams of a GPU.
func TestStreams(t *testing.T) {
	command := exec.CommandContext(t.Context(), python(t), "testdata/streams.py")
	command.WaitDelay = 30 * time.Second
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
