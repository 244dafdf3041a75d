package workloads

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestClass(t *testing.T) {
	for spec, want := range map[string]ep.Class{
		"uniform": ep.Even, "balanced": ep.Even, "local": ep.Even, "ragged:0": ep.Even, "lognormal:gini=0.1": ep.Even,
		"lognormal:1.0": ep.Skewed, "lognormal:1.0+masked:0.5": ep.Skewed, "lognormal:1.0+ragged:0": ep.Skewed,
		"khot:32:0.9": ep.Concentrated,
		"hotrank:2.0": ep.HotRank, "hotrank:4.0": ep.HotRank, "all2one:3": ep.HotRank,
		"masked:1.0": ep.AllRoutings,
	} {
		for _, tokens := range []int{0, 1, 2, 7, 64, 600} {
			w := mustNew(t, spec, v3(tokens), 42)
			if w.Class != want {
				t.Errorf("%s, %d tokens: class %s, want %s", spec, tokens, w.Class, want)
			}
			if len(w.Ranks) != 8 || w.Ranks[0].Tokens > tokens {
				t.Errorf("%s, %d tokens: the class changed the workload", spec, tokens)
			}
		}
	}
	p := v3(1)
	p.SkipA2A = true
	if w := mustNew(t, "hotrank:2.0", p, 1); w.Class != ep.HotRank {
		t.Errorf("replicated tokens: %s", w.Class)
	}
}
