package ref

import (
	"math"
	"sync"

	"github.com/epbench/epbench/tune/ep"
)

// layerSpread is the allowed error in standard deviations.
const layerSpread = 4

const fp8Unit = 1. / 16

// LayerRow returns the float64 output of op layer for one token: the sum over its experts of weight * W2 h, where h =
// silu(gate) * up. `gate` and `up` are the halves of W1 x. The field Want is nil.
//
// The bound is layerSpread times the root of the sum of squared errors of all roundings (Higham and Mary, A New
// Approach to Probabilistic Rounding Error Analysis, 2019).
func (o *Oracle) LayerRow(rank, token int) Sum {
	p := o.w.Problem
	x := Dequantize(p.Dispatch, o.Token(o.w.BatchRank(rank), token), p.Hidden, o.global)
	out := Sum{Exact: make([]float64, p.Hidden), Bound: make([]float64, p.Hidden)}
	r := o.w.Ranks[o.w.BatchRank(rank)]
	partials := map[int][]float64{}
	for k := range p.TopK {
		e, weight := int(r.Experts[token*p.TopK+k]), float64(r.Weights[token*p.TopK+k])
		if e < 0 {
			continue
		}
		partial := partials[e/p.LocalExperts()]
		if partial == nil {
			partial = make([]float64, p.Hidden)
			partials[e/p.LocalExperts()] = partial
		}
		y, variance := o.expertOutput(e, x)
		for c := range y {
			out.Exact[c] += weight * y[c]
			partial[c] += weight * y[c]
			out.Bound[c] += weight * weight * (variance[c] + square(bf16Unit*y[c]))
		}
	}
	for c := range out.Exact {
		for _, partial := range partials {
			out.Bound[c] += square(bf16Unit * partial[c])
		}
		out.Bound[c] = layerSpread*math.Sqrt(out.Bound[c]+square(bf16Unit*out.Exact[c])) + 1e-6
	}
	return out
}

// expertOutput returns W2 h of one expert, and the variance that the rounding of h causes in it.
func (o *Oracle) expertOutput(expert int, x []float32) (y, variance []float64) {
	p := o.w.Problem
	h, deviation := make([]float64, p.Intermediate), make([]float64, p.Intermediate)
	parallelRows(p.Intermediate, p.Hidden, func(i int, row []uint16) {
		o.w.Weight(expert, 0, i*p.Hidden, row)
		gate := dot(row, x)
		o.w.Weight(expert, 0, (p.Intermediate+i)*p.Hidden, row)
		up := dot(row, x)
		h[i], deviation[i] = swiglu(gate, up)
		if p.Dispatch == ep.FP8 {
			deviation[i] = math.Hypot(deviation[i], fp8Unit*h[i])
		}
	})
	y, variance = make([]float64, p.Hidden), make([]float64, p.Hidden)
	parallelRows(p.Hidden, p.Intermediate, func(c int, row []uint16) {
		o.w.Weight(expert, 1, c*p.Intermediate, row)
		for i, b := range row {
			w := float64(BF16ToFloat(b))
			y[c] += w * h[i]
			variance[c] += square(w * deviation[i])
		}
	})
	return y, variance
}

// swiglu returns silu(gate) * up, and the standard deviation of its error after rounding to BF16. The derivative of
// silu is at most 1.1.
func swiglu(gate, up float64) (h, deviation float64) {
	silu := gate / (1 + math.Exp(-gate))
	return silu * up, bf16Unit * math.Abs(up) * math.Sqrt(square(1.1*gate)+3*square(silu))
}

func square(x float64) float64 { return x * x }

func dot(row []uint16, x []float32) (sum float64) {
	for i, b := range row {
		sum += float64(BF16ToFloat(b)) * float64(x[i])
	}
	return sum
}

const rowsTogether = 64

func parallelRows(n, length int, f func(i int, row []uint16)) {
	var all sync.WaitGroup
	for first := 0; first < n; first += rowsTogether {
		all.Go(func() {
			row := make([]uint16, length)
			for i := first; i < min(first+rowsTogether, n); i++ {
				f(i, row)
			}
		})
	}
	all.Wait()
}
