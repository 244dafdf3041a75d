package measure

import (
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune"
	"github.com/epbench/epbench/tune/plan"
	"github.com/epbench/epbench/workloads"
)

// compiling is a backend that only listens.
type compiling struct {
	kernels.Backend
	heard []plan.Config
}

func (b *compiling) Kernels() []kernels.Kernel {
	return []kernels.Kernel{{Name: "k", Op: plan.Dispatch, Params: []kernels.Param{
		{Name: "threads", Binding: kernels.Launch}, {Name: "algo", Binding: kernels.Compile}, {Name: "lanes", Binding: kernels.Compile},
	}}}
}

func (b *compiling) Ahead(_ plan.Problem, configs []plan.Config) {
	b.heard = append(b.heard, configs...)
}

// TestForetell: each compiled-in combination is foretold once, whatever the
// launch parameters, and none that the rules forbid.
func TestForetell(t *testing.T) {
	forbid := func(c plan.Config) string {
		if c.Str("algo") == "dedup" && c.Int("lanes") == 4 {
			return "lanes"
		}
		return ""
	}
	space, _, err := tune.NewSpace(tune.Grid{Kernel: "k", Rules: []tune.Rule{forbid}, Axes: []tune.Axis{
		{Name: "threads", Values: []plan.Value{"128", "256", "512"}, Cost: -1},
		{Name: "algo", Values: []plan.Value{"direct", "dedup"}, Cost: -1},
		{Name: "lanes", Values: []plan.Value{"1", "2", "4"}, Cost: -1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b := &compiling{}
	r := &Runner{Backend: b, Space: space, Workload: &workloads.Workload{Problem: plan.Problem{Op: plan.Dispatch}}}
	r.foretell()
	seen := map[string]int{}
	for _, c := range b.heard[1:] {
		seen[c.Str("algo")+c.Str("lanes")]++
	}
	if len(b.heard) != 6 || len(seen) != 5 || b.heard[0].Key() != space.Config(0).Key() {
		t.Errorf("foretold %d configs, %v; want the default and each of 5 combinations", len(b.heard), seen)
	}
}
