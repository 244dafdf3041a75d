package sweep

import (
	"path/filepath"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/sweep/scripted"
)

// listening is a backend that compiles.
type listening struct {
	scripted.Backend
	told []ep.Problem
	ran  int // Run calls when it was last told something
	all  int // configs
}

func (b *listening) Ahead(p ep.Problem, configs []ep.Config) {
	b.told, b.ran, b.all = append(b.told, p), b.Runs, b.all+len(configs)
}

// TestForetold: before anything is measured, each op is spoken of twice,
// whatever the token counts: what searches begin with, here the default, then all compiled-in
// combinations, which are 3 numbers of threads by 1 algorithm.
func TestForetold(t *testing.T) {
	b := &listening{Backend: scripted.Backend{Sigma: 0.01}}
	o := options(t, "dispatch,combine,pair", []int{8, 16, 32}, "uniform", "zipf:1.0")
	o.Evaluations = 1
	mustSweep(t, b, o, filepath.Join(t.TempDir(), "run"))
	var ops []ep.Op
	for _, p := range b.told {
		ops = append(ops, p.Op)
	}
	want := []ep.Op{ep.Dispatch, ep.Combine, ep.Dispatch, ep.Combine}
	if len(ops) != len(want) || ops[0] != want[0] || ops[1] != want[1] || ops[2] != want[2] || b.ran > 0 || b.all != 2*1+2*3 {
		t.Errorf("told of %v and %d configs, the last after %d runs", ops, b.all, b.ran)
	}
}
