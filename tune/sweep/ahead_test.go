package sweep

import (
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
)

// listening is a backend that compiles kernels. It records the configs that a sweep announces.
type listening struct {
	scripted
	told []ep.Problem
	ran  int // Run calls before the last announcement
	all  int // announced configs
}

func (b *listening) Precompile(p ep.Problem, configs []ep.Config) {
	b.told, b.ran, b.all = append(b.told, p), b.Runs, b.all+len(configs)
}

// TestAnnounced checks what a sweep announces to the backend: first the configs with which each op's searches begin,
// then each op's combinations of compile-time values.
func TestAnnounced(t *testing.T) {
	b := &listening{scripted: scripted{Sigma: 0.01}}
	o := options(t, "dispatch,combine,pair", []int{8, 16, 32}, "uniform", "zipf:1.0")
	o.Evaluations = 1
	mustSweep(t, b, o, t.TempDir())
	var ops []ep.Op
	for _, p := range b.told {
		ops = append(ops, p.Op)
	}
	want := []ep.Op{ep.Dispatch, ep.Combine, ep.Dispatch, ep.Combine}
	if len(ops) != len(want) || ops[0] != want[0] || ops[1] != want[1] || ops[2] != want[2] || b.ran > 0 || b.all != 2*1+2*3 {
		t.Errorf("announced ops %v and %d configs; %d runs came before the last announcement", ops, b.all, b.ran)
	}
}

func TestComparisonsAreAnnounced(t *testing.T) {
	b := &listening{}
	if _, err := benched(b, options(t, "dispatch", []int{8}, "uniform"), parse(t, best), ""); err != nil || b.all != 2 || b.ran > 0 {
		t.Errorf("%d configs were announced after %d runs, want 2 after 0; error %v", b.all, b.ran, err)
	}
}

// TestCompiled: each legal combination of compile-time values is listed once.
func TestCompiled(t *testing.T) {
	known := []kernels.Kernel{{Name: "k", Params: []kernels.Param{
		{Name: "threads", Binding: kernels.Launch}, {Name: "algo", Binding: kernels.Compile}, {Name: "lanes", Binding: kernels.Compile},
	}}}
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
	seen := map[string]int{}
	configs := compiled(known, space)
	for _, c := range configs {
		seen[c.Str("algo")+c.Str("lanes")]++
	}
	if len(configs) != 5 || len(seen) != 5 {
		t.Errorf("%d configs, %v; want each of 5 combinations once", len(configs), seen)
	}
}
