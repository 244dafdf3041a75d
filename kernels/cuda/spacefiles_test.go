package cuda

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search/spacefile"
)

// TestSpaceFiles: the space files that scripts use name kernels and parameters of this
// backend, and each value is legal beside the first values of the others.
func TestSpaceFiles(t *testing.T) {
	files, err := filepath.Glob("../../native/*-space.yaml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	p := ep.Problem{Mode: ep.Graph, Ranks: 2, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8, Tokens: 128, MaxTokens: 128,
		Dispatch: ep.FP8, Combine: ep.BF16, Layout: ep.LayoutExpert}
	for _, name := range files {
		in, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := spacefile.Read(in)
		in.Close()
		if err != nil {
			t.Fatal(name, err)
		}
		if err := f.Check(declaredHere); err != nil {
			t.Error(name, err)
		}
		for kernel := range f.Kernels {
			spaceOf(t, name, f, p, kernel)
		}
	}
}

func declaredHere(kernel, param string) (unit, binding, class string, ok bool) {
	f, err := findFamily(families(), kernel)
	if err != nil {
		return "", "", "", false
	}
	for _, q := range f.kernel.Params {
		if q.Name == param {
			return q.Unit, string(q.Binding), string(q.Class), true
		}
	}
	return "", "", "", false
}

func spaceOf(t *testing.T, name string, f *spacefile.File, p ep.Problem, kernel string) {
	t.Helper()
	of, err := findFamily(families(), kernel)
	if err != nil {
		t.Error(name, err)
		return
	}
	p.Op = of.kernel.Op
	first := of.kernel.DefaultConfig(onCPU(), p)
	for param := range f.Kernels[kernel] {
		first = first.With(param, f.Values(kernel, param)[0])
	}
	for param := range f.Kernels[kernel] {
		for _, v := range f.Values(kernel, param) {
			c := first.With(param, v)
			if err := kernels.CheckConfig(everyKernel(), onCPU(), p, c); err != nil {
				t.Errorf("%s: %s: %v", name, c.Key(), err)
			}
		}
	}
}
