package sweep

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// phasedBackend is a `scripted` backend whose dispatch kernels can split their phases.
type phasedBackend struct{ scripted }

func (b *phasedBackend) Kernels() []kernels.Kernel {
	all := b.scripted.Kernels()
	for i, k := range all {
		if k.Op == ep.Dispatch {
			all[i].Params = append(slices.Clone(k.Params), kernels.Param{Name: kernels.ModeParam, Values: []ep.Value{kernels.ModeFused, kernels.ModeSplit},
				Default: kernels.ModeFused, Binding: kernels.Launch, Class: kernels.Speed})
			all[i].Default = func(m ep.Machine, p ep.Problem) ep.Config {
				return k.DefaultConfig(m, p).With(kernels.ModeParam, kernels.ModeFused)
			}
			all[i].Split = func(m ep.Machine, p ep.Problem) ep.Config {
				return k.DefaultConfig(m, p).With(kernels.ModeParam, kernels.ModeSplit)
			}
		}
	}
	return all
}

// TestPhasesAreSearchedBeside: split phases are tried if a matrix product runs beside the call, or if --param
// gives them.
func TestPhasesAreSearchedBeside(t *testing.T) {
	alone := ep.Problem{Op: ep.Dispatch, Mode: ep.Graph, Ranks: 2, Nodes: 1, Hidden: 512, Experts: 32, TopK: 4, Tokens: 16, MaxTokens: 16,
		Dispatch: ep.BF16, Combine: ep.BF16}
	beside := alone
	beside.Beside, beside.Objective = "copy", ep.BesideProduct
	split := map[string][]ep.Value{kernels.ModeParam: {kernels.ModeSplit}}
	for _, c := range []struct {
		p            ep.Problem
		given        map[string][]ep.Value
		want, begins []string
	}{
		{alone, nil, []string{"fused"}, []string{"fused"}},
		{beside, nil, []string{"fused", "split"}, []string{"fused", "split"}},
		{alone, split, []string{"split"}, []string{"fused"}},
	} {
		pl := newPlanner(&phasedBackend{}, &Options{Params: c.given})
		grids, err := pl.grids(c.p)
		if err != nil {
			t.Fatal(err)
		}
		var got, begins []string
		for _, a := range grids[0].Axes {
			for _, v := range a.Values {
				if a.Name == kernels.ModeParam {
					got = append(got, string(v))
				}
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s, given %v: %v, want %v", c.p.Key(), c.given, got, c.want)
		}
		for _, x := range pl.kernelStarts(c.p) {
			begins = append(begins, x.Str(kernels.ModeParam))
		}
		slices.Sort(begins)
		if !slices.Equal(slices.Compact(begins), c.begins) {
			t.Errorf("%s, given %v: begins with %v, want %v", c.p.Key(), c.given, begins, c.begins)
		}
	}
}

// TestSweepBeside: with a matrix product beside the calls, the sweep finds the config of the lowest cost.
func TestSweepBeside(t *testing.T) {
	dir := t.TempDir()
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
