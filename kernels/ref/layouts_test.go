package ref

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// laidOut returns the correct output of a dispatch in the problem's layout.
func laidOut(o *Oracle, rank int) Output {
	p, l, d := o.w.Problem, o.Encoding(), o.Dispatch(rank)
	n := dtype.MaxRows(p)
	buf := make([]byte, n*l.Payload)
	out := Output{
		RowOffsets: append([]uint32(nil), d.RowOffsets...), SrcInfo: make([]int32, 2*n), MaxRows: n,
		Scales: make([]byte, dtype.OutputScaleBytes(l, dtype.Groups(p), n)), Payload: Flat(buf, l.Payload),
		Experts: make([]int32, n*p.TopK), Weights: make([]float32, n*p.TopK),
	}
	for i, g := range d.Groups {
		row, first := d.First[i], 0
		out.ExpertIDs = append(out.ExpertIDs, int32(i))
		for s, items := range g.Items {
			out.Ranges = append(out.Ranges, uint64(first)<<32|uint64(len(items)))
			first += len(items)
			for _, it := range items {
				q := o.Token(g.Sources[s], it.Token)
				copy(buf[row*l.Payload:], q.Payload)
				for at := range l.Scales {
					copy(out.Scales[4*dtype.FP8Scale(p, n, row, at):][:4], q.Scales[4*at:])
				}
				second := it.K
				if p.Layout.ByRank() {
					second = g.Sources[s]
					out.lay(o, rank, row, second, it.Token)
				}
				out.SrcInfo[2*row], out.SrcInfo[2*row+1] = int32(it.Token), int32(second)
				row++
			}
		}
	}
	return out
}

// lay writes a token's local experts and weights to the arrays of its row.
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

// TestLayoutsAreJudged: for each layout, the oracle accepts a correct output and finds each kind of
// damage.
func TestLayoutsAreJudged(t *testing.T) {
	damage := map[string]func(*Output, Delivery){
		"row_offsets": func(g *Output, d Delivery) { g.RowOffsets[0]++ },
		"src_info":    func(g *Output, d Delivery) { g.SrcInfo[2*d.First[1]]++ },
		"second":      func(g *Output, d Delivery) { g.SrcInfo[2*d.First[1]+1]++ },
		"payload":     func(g *Output, d Delivery) { g.Payload(d.First[1])[3] ^= 1 },
		"scales": func(g *Output, d Delivery) {
			g.Scales[4*dtype.FP8Scale(layoutProblem(g), g.MaxRows, d.First[1], 0)] ^= 1
		},
		"ranges":  func(g *Output, d Delivery) { g.Ranges[0]++ },
		"experts": func(g *Output, d Delivery) { g.Experts[d.First[1]*2]++ },
		"weights": func(g *Output, d Delivery) { g.Weights[d.First[1]*2] += 1 },
	}
	onlyFor := map[string]string{"ranges": "masked", "experts": "rank", "weights": "rank"}
	for _, layout := range ep.Layouts() {
		o := New(tiny(func(p *ep.Problem) { p.Dispatch, p.Layout = ep.FP8, layout }), 1)
		if v := o.CheckDispatch(0, laidOut(o, 0), Compare{Ordered: true}); !v.OK() || v.Rows == 0 {
			t.Fatalf("%s: %+v", layout, v)
		}
		for name, f := range damage {
			if kind := onlyFor[name]; kind != "" && kind != layout.Kind() {
				continue
			}
			out := laidOut(o, 0)
			judgedLayout = o.w.Problem
			f(&out, o.Dispatch(0))
			if v := o.CheckDispatch(0, out, Compare{}); v.OK() {
				t.Errorf("%s: damaged %s was not seen", layout, name)
			}
		}
	}
}

var judgedLayout ep.Problem

func layoutProblem(*Output) ep.Problem { return judgedLayout }

// TestByRankKeepsOrder: in the layouts by rank, correct rows in the wrong order are a fault, because
// the code that reads the rows relies on the order of tokens.
func TestByRankKeepsOrder(t *testing.T) {
	w := tiny(func(p *ep.Problem) { p.Layout = ep.LayoutRank })
	w.Ranks[0] = workloads.Routing{Tokens: 2, Experts: []int32{2, 3, 3, 2}, Weights: []float32{1, 2, 3, 4}}
	o := New(w, 1)
	out := laidOut(o, 1)
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

// TestByRankSumsAreReduced: in layout rank, combine adds the partial sums of ranks, each rounded to
// BF16, although the comparison asks for no partial sums.
func TestByRankSumsAreReduced(t *testing.T) {
	expert, byRank := New(tiny(nil), 1), New(tiny(func(p *ep.Problem) { p.Layout = ep.LayoutRank }), 1)
	for i, want := range expert.CombineRow(0, 0, BF16Partial).Want {
		if got := byRank.CombineRow(0, 0, NoPartial).Want[i]; got != want {
			t.Fatalf("column %d: %#x, want %#x", i, got, want)
		}
	}
}
