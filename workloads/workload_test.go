package workloads

import (
	"testing"

	"github.com/epbench/epbench/tune/plan"
)

// v3 is deepseek-v3 on 8 ranks.
func v3(tokens int) plan.Problem {
	return plan.Problem{Op: plan.Dispatch, Mode: plan.Eager, Ranks: 8, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8,
		Tokens: tokens, MaxTokens: max(tokens, 1), Dispatch: plan.BF16, Combine: plan.BF16}
}

func mustNew(t testing.TB, spec string, p plan.Problem, seed uint64) *Workload {
	t.Helper()
	d, err := Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(d, p, seed)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The figures that the project promises: 8 ranks x 8192 tokens x top-8 of 256
// under 100 ms on two cores, and 5 million selections a second a core.
func BenchmarkRoute(b *testing.B) {
	for _, spec := range []string{"uniform", "balanced", "grouped", "zipf:1.0", "zipf:3.0", "powerlaw", "lognormal", "dirichlet", "khot", "hotrank", "one", "local", "masked", "ragged", "zipf:1.0+eplb:32", "uniform+sigmoid", "lognormal:gini=0.25", "dirichlet:effective=64", "zipf:gini=0.3", "powerlaw:gini=0.5"} {
		b.Run(spec, func(b *testing.B) {
			for b.Loop() {
				mustNew(b, spec, v3(8192), 1)
			}
			n := float64(8 * 8192 * 8)
			b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msel/s")
		})
	}
}
