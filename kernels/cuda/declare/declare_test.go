package declare

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// TestHeap: the parts of a heap are aligned, do not overlap, and end within the heap.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 30).Draw(t, "bytes")
		var parts []Region
		for i, n := range sizes {
			parts = append(parts, Region{Name: string(rune('a' + i)), Bytes: n})
		}
		h := NewHeap(parts)
		end := int64(0)
		for _, p := range parts {
			at := h.Offset[p.Name]
			if at%regionAlign != 0 || at < end || at+p.Bytes > h.Bytes {
				t.Fatalf("%s begins at %d and has %d bytes, the part before it ends at %d, the heap has %d bytes", p.Name, at, p.Bytes, end, h.Bytes)
			}
			end = at + p.Bytes
		}
	})
}

// TestStates: each part of a state has a size above 0. EpArgs has room for all regions.
func TestStates(t *testing.T) {
	for _, shape := range []struct{ ranks, local, topK, hidden int }{{1, 1, 1, 256}, {2, 3, 4, 512}, {8, 32, 8, 7168}, {8, 128, 16, 4096}} {
		p := ep.Problem{
			Op: ep.Pair, Mode: ep.Graph, Ranks: shape.ranks, Nodes: 1, Hidden: shape.hidden,
			Experts: shape.ranks * shape.local, TopK: shape.topK, Tokens: 128, MaxTokens: 128, Dispatch: ep.FP8, Combine: ep.BF16,
		}
		for _, s := range []State{epState, llState, finalState, hostsState, hostsLLState} {
			if n := len(s.RegionsFor(p)); n > 16 {
				t.Errorf("%s has %d regions, EpArgs holds 16", s.Name, n)
			}
			for _, part := range StateParts(s, p) {
				if part.Bytes <= 0 {
					t.Errorf("%s of %+v has %d bytes", part.Name, shape, part.Bytes)
				}
			}
		}
	}
}

// TestRefusals: each error names the field, the bound and the remedy.
func TestRefusals(t *testing.T) {
	m := ep.Machine{SMs: 132, GPUs: 4, Link: "nv18"}
	sound := ep.Problem{Ranks: 4, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8, Tokens: 1, MaxTokens: 8, Dispatch: ep.FP8}
	if err := CheckProblem(m, sound); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*ep.Problem)
		want   []string
	}{
		{func(p *ep.Problem) { p.Nodes = 2 }, []string{"nodes", "one host", "--nodes 1", "epbench-cuda rank"}},
		{func(p *ep.Problem) { p.Ranks = 16 }, []string{"ranks", "16", "8"}},
		{func(p *ep.Problem) { p.Ranks = 8 }, []string{"ranks", "8 GPUs", "4", "--loopback"}},
		{func(p *ep.Problem) { p.Experts = 2048 }, []string{"experts", "1024"}},
		{func(p *ep.Problem) { p.Hidden = 100 }, []string{"hidden", "multiple of 8"}},
		{func(p *ep.Problem) { p.Tokens = 9 }, []string{"tokens", "max-tokens 8"}},
	} {
		p := sound
		c.change(&p)
		err := CheckProblem(m, p)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v does not say %q", p, err, want)
			}
		}
	}
	m.Link, sound.Ranks = Loopback, 8
	if err := CheckProblem(m, sound); err != nil {
		t.Errorf("loopback: %v", err)
	}
	if got := maxBlocks(m, sound); got != 132/2/2 {
		t.Errorf("two ranks on each GPU may launch %d blocks each, want 132 SMs / (2 ranks x 2 calls) = 33", got)
	}
}

// TestUnknownParameters: a config must set exactly the declared parameters.
func TestUnknownParameters(t *testing.T) {
	p := variantProblem(ep.Dispatch, ep.FP8)
	for _, k := range Kernels() {
		p := inLayoutOf(k, p)
		p.Op = k.Op
		c := k.DefaultConfig(h200, p)
		if err := k.Check(h200, p, c); err != nil {
			t.Errorf("%s: default: %v", k.Name, err)
		}
		if err := k.Check(h200, p, c.With("colour", "red")); err == nil || !strings.Contains(err.Error(), "colour") {
			t.Errorf("%s: an unknown parameter gave %v", k.Name, err)
		}
		if err := k.Check(h200, p, ep.Config{Kernel: k.Name}); err == nil {
			t.Errorf("%s: a config without parameters is legal", k.Name)
		}
	}
}

// h200 is a machine on which the whole default space is legal.
var h200 = ep.Machine{Backend: "cuda", Arch: "sm_90", SMs: 132, GPUs: 8, Link: "nv18"}

// inLayoutOf returns p in the first layout that a kernel supports.
func inLayoutOf(k kernels.Kernel, p ep.Problem) ep.Problem {
	if k.Layouts != nil {
		p.Layout = k.Layouts[0]
	}
	return p
}

func variantProblem(op ep.Op, f ep.DType) ep.Problem {
	return ep.Problem{
		Op: op, Mode: ep.Graph, Ranks: 8, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8,
		Tokens: 128, MaxTokens: 128, Dispatch: f, Combine: ep.BF16,
	}
}
