package cpu

import (
	"context"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/plan"
	"github.com/epbench/epbench/workloads"
)

func problem(op plan.Op) plan.Problem {
	return plan.Problem{Op: op, Mode: plan.Eager, Ranks: 4, Nodes: 1, Hidden: 256, Experts: 16, TopK: 4,
		Tokens: 33, MaxTokens: 33, Dispatch: plan.BF16, Combine: plan.BF16}
}

func draw(t testing.TB, p plan.Problem, routing string) *workloads.Workload {
	t.Helper()
	d, err := workloads.Parse(routing)
	if err != nil {
		t.Fatal(err)
	}
	w, err := workloads.New(d, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func testSmoke(t *testing.T) {
	for _, f := range plan.Formats() {
		for _, op := range plan.Ops() {
			for _, shared := range []bool{false, true} {
				for _, skip := range []bool{false, true} {
					p := problem(op)
					p.Dispatch = f
					p.SharedExpert = shared
					p.SkipA2A = skip
					b, _ := Open()
					s, err := b.Open(t.Context(), draw(t, p, "uniform"))
					if err != nil {
						t.Fatal(err)
					}
					for _, k := range kernels.Of(b.Kernels(), op) {
						c := k.DefaultConfig(b.Machine(), p)
						if err := k.Check(b.Machine(), p, c); err != nil {
							t.Fatal(err)
						}
						v, err := s.Verify(context.Background(), c)
						if err != nil || !v.OK() {
							t.Errorf("%s %s: %+v %v", p.Key(), c.Key(), v, err)
						}
						if _, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 3, Fold: 5}); err != nil {
							t.Error(err)
						}
					}
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}
