package main

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/sweep"
	"github.com/epbench/epbench/workloads"
)

// TestWorkloadAndSweepSayOneClass: workload prints the routing class of a sweep's rows.
func TestWorkloadAndSweepSayOneClass(t *testing.T) {
	b, _, err := openBackend(t.Context(), "cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	routings := []string{
		"uniform", "balanced", "zipf:1.0", "zipf:0.6", "zipf:2.5", "powerlaw:1.01", "lognormal:1.0", "lognormal:gini=0.25",
		"dirichlet:0.3", "khot:5:0.8", "hotrank:1.5", "one:0.9", "remote", "roundrobin", "ragged:0", "masked:0.5",
		"zipf:1.0+eplb:8", "zipf:1.0+drift:2.0:5", "lognormal:1.5+ragged:0+masked:0.25+sigmoid",
		"trace:../../testdata/traces/ids_i4.npy",
	}
	seen := map[ep.Class]bool{}
	rapid.Check(t, func(t *rapid.T) {
		f := problemFlags{layout: "expert",
			model: "demo", ops: "dispatch", dtypes: "bf16", nodes: 1, hidden: 256,
			ranks:   rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "ranks"),
			experts: rapid.SampledFrom([]int{16, 32, 64}).Draw(t, "experts"),
			topK:    rapid.IntRange(1, 4).Draw(t, "top-k"),
			tokens:  rapid.SampledFrom([]string{"1", "2", "7", "64", "500"}).Draw(t, "tokens"),
			routing: rapid.SampledFrom(routings).Draw(t, "routing"),
			seed:    rapid.Uint64().Draw(t, "seed"),
			skipA2A: rapid.Bool().Draw(t, "skip-a2a"),
		}
		problems, err := f.problems(b.Machine())
		if err != nil {
			t.Fatal(err)
		}
		dists, err := f.distributions()
		if err != nil {
			t.Fatal(err)
		}
		w, err := workloads.New(dists[0], problems[0], f.seed)
		if err != nil {
			t.Fatal(err)
		}
		said := newRoutingTables(0)
		said.add(w)
		plan, err := sweep.MakePlan(b, &sweep.Options{Problems: problems, Distributions: dists, Seed: f.seed, Strategy: "race"})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := cellOf(t, said.skew, "class"), string(plan.Searches[0].Class()); got != want {
			t.Fatalf("%s, %s tokens: workload says %s, sweep %s", f.routing, f.tokens, got, want)
		}
		seen[w.Class] = true
	})
	if len(seen) < 2 {
		t.Errorf("the draws have only the classes %v", seen)
	}
}

func cellOf(t *rapid.T, table reports.Table, column string) any {
	for i, c := range table.Columns {
		if c.Name == column {
			return table.Rows[0][i].Value
		}
	}
	t.Fatalf("no column %s", column)
	return nil
}
