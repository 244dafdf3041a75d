package ref

import (
	"math"
	"slices"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

func layerWorkload(t *testing.T, dtype ep.DType) *workloads.Workload {
	t.Helper()
	w, err := workloads.Draw("zipf:1.0+masked:0.2", ep.Problem{Op: ep.Layer, Mode: ep.Eager, Ranks: 2, Nodes: 1, Hidden: 512, Intermediate: 256, Experts: 8, TopK: 4,
		Tokens: 6, MaxTokens: 6, Dispatch: dtype, Combine: ep.BF16}, 5)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// roundedLayer computes a layer and rounds where libraries round. It leaves out top-k position `skip` (-1: none).
func roundedLayer(w *workloads.Workload, rank, token, skip int) []float32 {
	p := w.Problem
	round := func(x float32) float32 { return BF16ToFloat(BF16(x)) }
	product := func(expert, matrix, row int, x []float32) float32 {
		weights := make([]uint16, len(x))
		w.Weight(expert, matrix, row*len(x), weights)
		var sum float32
		for i, b := range weights {
			sum += BF16ToFloat(b) * x[i]
		}
		return round(sum)
	}
	cast := func(x []float32) []float32 { return Dequantize(p.Dispatch, Quantize(p.Dispatch, x, 1), len(x), 1) }
	x := Dequantize(p.Dispatch, New(w, 1).Token(rank, token), p.Hidden, 1)
	partials := make([][]float32, p.Ranks)
	for k := range p.TopK {
		e := int(w.Ranks[rank].Experts[token*p.TopK+k])
		if e < 0 || k == skip {
			continue
		}
		h := make([]float32, p.Intermediate)
		for i := range h {
			gate, up := product(e, 0, i, x), product(e, 0, p.Intermediate+i, x)
			h[i] = round(round(gate/(1+float32(math.Exp(-float64(gate))))) * up)
		}
		h = cast(h)
		at := &partials[e/p.LocalExperts()]
		if *at == nil {
			*at = make([]float32, p.Hidden)
		}
		for c := range *at {
			(*at)[c] += w.Ranks[rank].Weights[token*p.TopK+k] * product(e, 1, c, h)
		}
	}
	out := make([]float32, p.Hidden)
	for _, partial := range partials {
		for c := range partial {
			out[c] += round(partial[c])
		}
	}
	for c := range out {
		out[c] = round(out[c])
	}
	return out
}

func outside(s Sum, got []float32) (n int, most float64) {
	for c, x := range got {
		share := math.Abs(float64(x)-s.Exact[c]) / s.Bound[c]
		if most = max(most, share); share > 1 {
			n++
		}
	}
	return n, most
}

func TestLayerRow(t *testing.T) {
	for _, dtype := range []ep.DType{ep.BF16, ep.FP8} {
		t.Run(string(dtype), func(t *testing.T) { checkLayerRows(t, layerWorkload(t, dtype)) })
	}
}

func checkLayerRows(t *testing.T, w *workloads.Workload) {
	t.Helper()
	o := New(w, 1)
	for rank, r := range w.Ranks {
		for token := range r.Tokens {
			want := o.LayerRow(rank, token)
			if n, most := outside(want, roundedLayer(w, rank, token, -1)); n > 0 {
				t.Errorf("rank %d, token %d: %d values outside the bounds; the largest error is %.2f times its bound", rank, token, n, most)
			}
			ids := r.Experts[token*w.Problem.TopK:][:w.Problem.TopK]
			k := slices.IndexFunc(ids, func(e int32) bool { return e >= 0 })
			if k < 0 {
				continue
			}
			if n, _ := outside(want, roundedLayer(w, rank, token, k)); n < w.Problem.Hidden/2 {
				t.Errorf("rank %d, token %d without its expert %d: only %d of %d values outside the bounds", rank, token, ids[k], n, w.Problem.Hidden)
			}
		}
	}
}
