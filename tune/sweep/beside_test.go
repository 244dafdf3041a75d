package sweep

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// phasedBackend has the kernels of scripted, and a second copy of each dispatch with split
// phases.
type phasedBackend struct{ scripted }

func (b *phasedBackend) Kernels() []kernels.Kernel {
	all := b.scripted.Kernels()
	for _, k := range slices.Clone(all) {
		if k.Op == ep.Dispatch {
			k.Name, k.SplitPhases = k.Name+"_split", true
			all = append(all, k)
		}
	}
	return all
}

// TestPhasesAreSearchedBeside: kernels with split phases are in the space if a matrix product
// runs at the same time as the calls, or if --kernel names them. A search begins with designs of
// the kernels in its space, and of no other kernel.
func TestPhasesAreSearchedBeside(t *testing.T) {
	alone := ep.Problem{Op: ep.Dispatch, Mode: ep.Graph, Ranks: 2, Nodes: 1, Hidden: 512, Experts: 32, TopK: 4, Tokens: 16, MaxTokens: 16,
		Dispatch: ep.BF16, Combine: ep.BF16}
	beside := alone
	beside.Beside, beside.Objective = "copy", ep.BesideProduct
	for _, c := range []struct {
		p     ep.Problem
		named []string
		want  []string
	}{
		{alone, nil, []string{"dispatch"}},
		{beside, nil, []string{"dispatch", "dispatch_split"}},
		{alone, []string{"dispatch_split"}, []string{"dispatch_split"}},
	} {
		pl := newPlanner(&phasedBackend{}, &Options{Kernels: c.named})
		grids, err := pl.grids(c.p)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range grids {
			got = append(got, g.Kernel)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s, --kernel %v: %v, want %v", c.p.Key(), c.named, got, c.want)
		}
		var begins []string
		for _, x := range pl.kernelStarts(c.p) {
			begins = append(begins, x.Kernel)
		}
		slices.Sort(begins)
		if !slices.Equal(slices.Compact(begins), c.want) {
			t.Errorf("%s, --kernel %v: begins with %v, want %v", c.p.Key(), c.named, begins, c.want)
		}
		if _, ok := pl.analytic(c.p); ok != slices.Contains(c.want, "dispatch") {
			t.Errorf("%s, --kernel %v: a model's choice of the default's kernel is %v", c.p.Key(), c.named, ok)
		}
	}
}

// TestSweepBeside: a search with a matrix product finds a config with a small cost, although no
// config is faster without the product. The rows have the objective beside, cover both token
// counts, and name the product. A finished sweep is not measured again.
func TestSweepBeside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	o := options(t, "dispatch", []int{1, 16}, "uniform")
	for i, p := range o.Problems {
		o.Problems[i] = p.WithProduct(ep.Product{Kind: ep.Gemm}, 64, ep.BesideProduct)
	}
	out := mustSweep(t, &scripted{Sigma: 0.01}, o, dir)
	if out.Table == nil {
		t.Fatal(out.NoTable)
	}
	if err := out.Table.Seal(); err != nil {
		t.Fatal(err)
	}
	for _, s := range out.Run.Searches {
		if !strings.Contains(s.Decision.Config.Key(), "sms=32,") || s.Beside == nil {
			t.Fatalf("%s: %s, %+v", s.Problem.Key(), s.Decision.Config.Key(), s.Beside)
		}
		b := s.Beside.Config
		if math.Abs(b.Call.Mid-20e-6) > 1e-9 || math.Abs(b.Cost.Mid-s.Times.Median) > 0.02*s.Times.Median || b.Amount != "scripted" {
			t.Errorf("%+v, median %v", b, s.Times.Median)
		}
	}
	for _, r := range out.Table.Rows {
		if r.Key.Objective != ep.BesideProduct || r.Lo != 1 || r.Hi != 16 || !strings.HasPrefix(r.Evidence.Beside, "gemm:") {
			t.Errorf("%+v", r)
		}
	}
	again := &scripted{Sigma: 0.01}
	if mustSweep(t, again, o, dir); again.Runs != 0 {
		t.Errorf("resuming a finished sweep ran %d rounds", again.Runs)
	}
}
