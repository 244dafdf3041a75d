package model

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

func written(t *testing.T, f *File) string {
	path := filepath.Join(t.TempDir(), "model.yaml")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := f.Write(out); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBackendSaysPredicted(t *testing.T) {
	b, err := Open(written(t, fitted(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if m := b.Machine(); m.Backend != ep.Predicted || m.GPUs != 0 || !strings.HasPrefix(m.Name, "predicted by ") {
		t.Errorf("machine %+v", m)
	}
	p := ep.Problem{Op: ep.Combine, Mode: ep.Graph, Ranks: 16, Nodes: 2, Hidden: 7168, Experts: 256, TopK: 8, Tokens: 128, MaxTokens: 128, Dispatch: ep.FP8, Combine: ep.BF16}
	w, err := workloads.New(parse(t, "uniform"), p, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Open(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), ep.Config{}, kernels.RunSpec{Rounds: 2, Fold: 1})
	if err != nil || r.Clock != ep.Predicted || len(r.Seconds) != 2 || len(r.Seconds[0]) != 16 {
		t.Fatalf("%+v, %v", r, err)
	}
	// 512 of the 1024 rows go to the other host: 512 x 14,336 bytes at 50 GB/s take 147 us.
	if us := r.Seconds[0][0] * 1e6; us < 147 || us > 220 {
		t.Errorf("predicted %v us", us)
	}
	if v, err := s.Verify(t.Context(), ep.Config{}); err != nil || v.Rows != 0 {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

func TestCheckKnowsWhatWasRecorded(t *testing.T) {
	b, err := Open(written(t, fitted(t)))
	if err != nil {
		t.Fatal(err)
	}
	k := b.Kernels()[0]
	p := ep.Problem{Op: ep.Dispatch, Dispatch: ep.FP8}
	if err := k.Check(b.Machine(), p, ep.Config{}); err != nil {
		t.Error(err)
	}
	p.Dispatch = ep.NVFP4
	if err := k.Check(b.Machine(), p, ep.Config{}); err == nil || !strings.Contains(err.Error(), "has no fit") {
		t.Errorf("nvfp4: %v", err)
	}
}

func TestOpenNeedsAFit(t *testing.T) {
	links, err := Links()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{"", "write model:FILE"}, {"/nowhere", "no such file or directory; epbench model fit"}, {written(t, links), "gives the speeds of links, but has no fitted coefficients"},
	} {
		if _, err := Open(c.path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.path, err, c.want)
		}
	}
}
