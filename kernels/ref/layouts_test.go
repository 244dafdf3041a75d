package ref

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

func (out *Output) lay(o *Oracle, rank, row, source, token int) {
	p := o.w.Problem
	for k := range p.TopK {
		e, at := int(o.w.Ranks[source].Experts[token*p.TopK+k]), row*p.TopK+k
		out.Experts[at] = -1
		if e >= 0 && e/p.LocalExperts() == rank {
			out.Experts[at], out.Weights[at] = int32(e%p.LocalExperts()), o.w.Ranks[source].Weights[token*p.TopK+k]
		}
	}
}

func TestLayoutsAreJudged(t *testing.T) {
	damage := map[string]func(g *Output, p ep.Problem, row int){
		"row_offsets": func(g *Output, _ ep.Problem, row int) { g.RowOffsets[0]++ },
		"src_info":    func(g *Output, _ ep.Problem, row int) { g.SrcInfo[2*row]++ },
		"second":      func(g *Output, _ ep.Problem, row int) { g.SrcInfo[2*row+1]++ },
		"payload":     func(g *Output, _ ep.Problem, row int) { g.Payload(row)[3] ^= 1 },
		"scales":      func(g *Output, p ep.Problem, row int) { g.Scales[4*dtype.FP8Scale(p, g.MaxRows, row, 0)] ^= 1 },
		"ranges":      func(g *Output, _ ep.Problem, row int) { g.Ranges[0]++ },
		"experts":     func(g *Output, _ ep.Problem, row int) { g.Experts[row*2]++ },
		"weights":     func(g *Output, _ ep.Problem, row int) { g.Weights[row*2] += 1 },
	}
	onlyFor := map[string]string{"ranges": "masked", "experts": "rank", "weights": "rank"}
	for _, layout := range ep.Layouts() {
		o := New(tiny(func(p *ep.Problem) { p.Dispatch, p.Layout = ep.FP8, layout }), 1)
		if v := o.CheckDispatch(0, faithful(o, 0), Compare{Ordered: true}); !v.OK() || v.Rows == 0 {
			t.Fatalf("%s: %+v", layout, v)
		}
		for name, f := range damage {
			if kind := onlyFor[name]; kind != "" && kind != layout.Kind() {
				continue
			}
			out := faithful(o, 0)
			f(&out, o.w.Problem, o.Dispatch(0).First[1])
			if v := o.CheckDispatch(0, out, Compare{}); v.OK() {
				t.Errorf("%s: damaged %s was not seen", layout, name)
			}
		}
	}
}

// TestByRankKeepsOrder: rows in the wrong order are a fault.
func TestByRankKeepsOrder(t *testing.T) {
	w := tiny(func(p *ep.Problem) { p.Layout = ep.LayoutRank })
	w.Ranks[0] = workloads.Routing{Tokens: 2, Experts: []int32{2, 3, 3, 2}, Weights: []float32{1, 2, 3, 4}}
	o := New(w, 1)
	out := faithful(o, 1)
	k := w.Problem.TopK
	out.SrcInfo[0], out.SrcInfo[2] = out.SrcInfo[2], out.SrcInfo[0]
	for i := range k {
		out.Experts[i], out.Experts[k+i] = out.Experts[k+i], out.Experts[i]
		out.Weights[i], out.Weights[k+i] = out.Weights[k+i], out.Weights[i]
	}
	if v := o.CheckDispatch(1, out, Compare{}); v.OK() || !strings.Contains(v.Detail, "before") {
		t.Errorf("%+v", v)
	}
}

// TestByRankSumsAreReduced: layout rank rounds the partial sum of each rank to BF16.
func TestByRankSumsAreReduced(t *testing.T) {
	expert, byRank := New(tiny(nil), 1), New(tiny(func(p *ep.Problem) { p.Layout = ep.LayoutRank }), 1)
	for i, want := range expert.CombineRow(0, 0, BF16Partial).Want {
		if got := byRank.CombineRow(0, 0, NoPartial).Want[i]; got != want {
			t.Fatalf("column %d: %#x, want %#x", i, got, want)
		}
	}
}
