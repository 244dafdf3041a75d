package cpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

func TestProductMultiplies(t *testing.T) {
	of := ep.Product{Kind: ep.Gemm, M: 3, N: 40, K: 24, DType: ep.BF16, Groups: 2}
	p := newProduct(of)
	for group := range of.Groups {
		p.work(p.pieces() / of.Groups)
		for m := range of.M {
			for n := range of.N {
				var want float32
				for k := range of.K {
					want += factor(m*of.K+k) * factor((group*of.N+n)*of.K+k+3)
				}
				if got := p.out[m*of.N+n]; got != want {
					t.Fatalf("group %d, row %d, column %d: %v, want %v", group, m, n, got, want)
				}
			}
		}
	}
}

func TestProductCopies(t *testing.T) {
	p := newProduct(ep.Product{Kind: ep.Copy})
	p.from[0], p.from[productBytes-1] = 1, 2
	p.work(p.pieces())
	if p.to[0] != 1 || p.to[productBytes-1] != 2 {
		t.Error("the buffer's ends were not copied")
	}
}

// TestRunBeside: beside the product, every op gives consistent times and correct outputs.
func TestRunBeside(t *testing.T) {
	for _, op := range ep.Exchanges() {
		for work, objective := range map[string]ep.Objective{"gemm:4,64,64,bf16,2": ep.BesideProduct, "copy": ep.Alone} {
			p := problem(op)
			p.Tokens, p.MaxTokens, p.Beside, p.Objective = 4, 4, work, objective
			s, c := session(t, p)
			for _, mode := range []ep.Value{modeFused, modeSplit} {
				checkBeside(t, s, withMode(c, mode))
			}
		}
	}
}

func withMode(c ep.Config, mode ep.Value) ep.Config {
	for _, name := range c.Names() {
		if name == "mode" || strings.HasSuffix(name, ".mode") {
			c = c.With(name, mode)
		}
	}
	return c
}

func checkBeside(t *testing.T, s *Session, c ep.Config) {
	t.Helper()
	v, err := s.Verify(t.Context(), c)
	if err != nil || !v.OK() || v.Rows == 0 {
		t.Fatalf("%s: %+v, %v", c.Key(), v, err)
	}
	got, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 2, Fold: 3})
	if err != nil {
		t.Fatalf("%s: %v", c.Key(), err)
	}
	b := got.Beside
	if err := b.Validate(2, s.Ranks); err != nil {
		t.Fatal(err)
	}
	for i := range b.Both {
		for r, both := range b.Both[i] {
			if both <= 0 || b.CallIn[i][r] > both || b.ProductIn[i][r] > both || b.Done[i][r] > 1 {
				t.Errorf("%s: round %d, rank %d: both %v, call %v, product %v, done %v", c.Key(), i, r, both, b.CallIn[i][r], b.ProductIn[i][r], b.Done[i][r])
			}
			want := b.Call[i][r]
			if s.Objective == ep.BesideProduct {
				want = max(both-b.Product[i][r], ep.LeastCost)
			}
			if got.Seconds[i][r] != want {
				t.Errorf("%s, objective %s: %v s, want %v", c.Key(), s.Objective, got.Seconds[i][r], want)
			}
		}
	}
	if !strings.Contains(b.Amount, " pieces of "+s.Beside) {
		t.Errorf("amount %q", b.Amount)
	}
}

// TestBesideFaults: a faulty candidate gets the same status beside a product as without a product.
func TestBesideFaults(t *testing.T) {
	for _, f := range []fault{noSignal, panicking} {
		p := problem(ep.Dispatch)
		p.Tokens, p.MaxTokens, p.Beside, p.Objective = 4, 4, "gemm:4,64,64,bf16,2", ep.BesideProduct
		s, c := session(t, p)
		if f == noSignal {
			s.backend.deadline = hangsEnd
		}
		s.backend.faulty = func(ep.Config) fault { return f }
		if got, reason := end(t, s, c); got != endings[f] {
			t.Errorf("%s ended as %s: %s", f, got, reason)
		}
		_, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 1})
		var failure *kernels.Failure
		if !errors.As(err, &failure) || failure.Status != endings[f] {
			t.Errorf("%s: a run ended as %v", f, err)
		}
		s.backend.faulty, s.backend.deadline = func(ep.Config) fault { return noFault }, longestWait
		checkBeside(t, s, c)
	}
}

func TestStepIsRefused(t *testing.T) {
	p := problem(ep.Pair)
	p.Beside = "step:4,64,64,bf16,2"
	err := checkProblem(p)
	if err == nil || !strings.Contains(err.Error(), "use gemm or copy") {
		t.Error(err)
	}
}
