package declare

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search/spacefile"
)

// TestSpaceFiles: the kernels and parameters in native/*-space.yaml exist, and each value is legal in some config.
func TestSpaceFiles(t *testing.T) {
	files, err := filepath.Glob("../../../native/*-space.yaml")
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
		f = f.Renamed(func(c ep.Config) ep.Config { return kernels.Rename(AllKernels(), c) }, nil)
		if err := f.Check(declaredHere()); err != nil {
			t.Error(name, err)
		}
		for kernel := range f.Kernels {
			spaceOf(t, name, f, p, kernel)
		}
	}
}

func declaredHere() map[string]map[string]spacefile.Declared {
	out := map[string]map[string]spacefile.Declared{}
	for _, k := range AllKernels() {
		out[k.Name] = map[string]spacefile.Declared{}
		for _, q := range k.Params {
			out[k.Name][q.Name] = spacefile.Declared{Unit: q.Unit, Binding: string(q.Binding), Class: string(q.Class)}
		}
	}
	return out
}

func spaceOf(t *testing.T, name string, f *spacefile.File, p ep.Problem, kernel string) {
	t.Helper()
	of, err := findIn(Declarations(), kernel)
	if err != nil {
		t.Error(name, err)
		return
	}
	p.Op = of.Kernel.Op
	points := []ep.Config{of.Kernel.DefaultConfig(onCPU(), p)}
	for param := range f.Kernels[kernel] {
		var more []ep.Config
		for _, v := range f.Values(kernel, param) {
			for _, c := range points {
				more = append(more, c.With(param, v))
			}
		}
		points = more
	}
	points = slices.DeleteFunc(points, func(c ep.Config) bool { return kernels.CheckConfig(AllKernels(), onCPU(), p, c) != nil })
	for param := range f.Kernels[kernel] {
		for _, v := range f.Values(kernel, param) {
			if !slices.ContainsFunc(points, func(c ep.Config) bool { return c.Values[param] == v }) {
				t.Errorf("%s: %s.%s: %s is legal in no config", name, kernel, param, v)
			}
		}
	}
}
