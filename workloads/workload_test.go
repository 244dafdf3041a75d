package workloads

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func v3(tokens int) ep.Problem { return shape(8, 256, 8, tokens) }

func shape(ranks, experts, topK, tokens int) ep.Problem {
	return ep.Problem{Op: ep.Dispatch, Mode: ep.Eager, Ranks: ranks, Nodes: 1, Hidden: 7168, Experts: experts, TopK: topK,
		Tokens: tokens, MaxTokens: max(tokens, 1), Dispatch: ep.BF16, Combine: ep.BF16}
}

func mustParse(t testing.TB, spec string) Distribution {
	t.Helper()
	d, err := Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustNew(t testing.TB, spec string, p ep.Problem, seed uint64) *Workload {
	t.Helper()
	w, err := Draw(spec, p, seed)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// plainSpecs lists specs for v3 without targets, at least one of every kind except trace.
var plainSpecs = []string{
	"uniform", "balanced", "grouped:8:4", "zipf:1.0", "zipf:3.0", "powerlaw:1.01", "powerlaw:1.2:100.0",
	"lognormal:0.5", "dirichlet:0.3", "khot:32:0.9", "hotrank:2.0", "hotrank:4.0", "one:0.9", "local",
	"remote", "all2one:3", "roundrobin", "masked:0.1", "ragged:0", "ragged:5:100",
	"zipf:1.0+eplb:32", "zipf:1.0+drift:16.0:8", "uniform+sigmoid", "lognormal:1.0+drift:4.0:3+ragged:0+masked:0.25+sigmoid+eplb:8",
}

var solvedSpecs = []string{
	"zipf:gini=0.3", "powerlaw:gini=0.5", "lognormal:gini=0.25", "dirichlet:effective=64.0", "lognormal:maxmean=4.0",
}

func BenchmarkRoute(b *testing.B) {
	for _, spec := range append(plainSpecs, solvedSpecs...) {
		b.Run(spec, func(b *testing.B) {
			for b.Loop() {
				mustNew(b, spec, v3(8192), 1)
			}
			n := float64(8 * 8192 * 8)
			b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msel/s")
		})
	}
}
