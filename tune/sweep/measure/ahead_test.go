package measure

import (
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/workloads"
)

// compiling is a backend that only listens.
type compiling struct {
	kernels.Backend
	heard []ep.Config
}

func (b *compiling) Kernels() []kernels.Kernel {
	return []kernels.Kernel{{Name: "k", Op: ep.Dispatch, Params: []kernels.Param{
		{Name: "threads", Binding: kernels.Launch}, {Name: "algo", Binding: kernels.Compile}, {Name: "lanes", Binding: kernels.Compile},
	}}}
}

func (b *compiling) Ahead(_ ep.Problem, configs []ep.Config) {
	b.heard = append(b.heard, configs...)
}

// TestAnnounce: each compiled-in combination is foretold once, whatever the
// launch parameters, and none that the rules forbid.
func TestAnnounce(t *testing.T) {
	forbid := func(c ep.Config) string {
		if c.Str("algo") == "dedup" && c.Int("lanes") == 4 {
			return "lanes"
		}
		return ""
	}
	space, _, err := search.NewSpace(search.Grid{Kernel: "k", Rules: []search.Rule{forbid}, Axes: []search.Axis{
		{Name: "threads", Values: []ep.Value{"128", "256", "512"}},
		{Name: "algo", Values: []ep.Value{"direct", "dedup"}},
		{Name: "lanes", Values: []ep.Value{"1", "2", "4"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b := &compiling{}
	r := New(Setup{Backend: b, Space: space, Workload: &workloads.Workload{Problem: ep.Problem{Op: ep.Dispatch}}})
	r.announce()
	seen := map[string]int{}
	for _, c := range b.heard[1:] {
		seen[c.Str("algo")+c.Str("lanes")]++
	}
	if len(b.heard) != 6 || len(seen) != 5 || b.heard[0].Key() != space.Config(0).Key() {
		t.Errorf("announced %d configs, %v; want the default and each of 5 combinations", len(b.heard), seen)
	}
}
