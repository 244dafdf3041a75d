package ref

import (
	"iter"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// Sum is the expected result of combine for one token.
type Sum struct {
	Want  []uint16  // [hidden] BF16 bits
	Exact []float64 // [hidden] float64 sum, nothing rounded
	Bound []float64 // [hidden] largest |result - Exact| of a correct result
}

// Unit roundoffs.
const (
	bf16Unit = 1. / (1 << 8)
	f32Unit  = 1. / (1 << 24)
)

// Partial says how a rank returns its experts' rows of one token.
type Partial int

const (
	NoPartial   Partial = iota // all rows are sent and summed
	BF16Partial                // each rank's sum is rounded to BF16
	F32Partial                 // each rank's sum is not rounded
	Weighted                   // like BF16Partial, with products rounded to BF16
)

// CombineRow returns a token's sum. In the layouts by rank, partial sums are always BF16.
func (o *Oracle) CombineRow(rank, token int, partial Partial) Sum {
	return o.combine(rank, token, partial, o.Token(o.w.BatchRank(rank), token))
}

// CombineCasts returns the sums that are correct for a library that itself converts the token to the dtype. In
// FP8 there are two sums, because libraries round a value in the middle between two codes to either code.
func (o *Oracle) CombineCasts(rank, token int, partial Partial) iter.Seq[Sum] {
	return func(yield func(Sum) bool) {
		if !yield(o.CombineRow(rank, token, partial)) || o.w.Problem.Dispatch != ep.FP8 {
			return
		}
		batch := o.w.BatchRank(rank)
		other := otherCast(o.unquantized(batch, token), o.Token(batch, token))
		yield(o.combine(rank, token, partial, other))
	}
}

func (o *Oracle) combine(rank, token int, partial Partial, row Row) Sum {
	p := o.w.Problem
	if p.Layout.ByRank() {
		partial = BF16Partial
	}
	terms := o.terms(rank, token)
	all, groups, y := upTo(len(terms)), byRank(terms), make([]float32, len(terms))
	weights := make([]float32, len(terms))
	for i := range terms {
		weights[i] = 1
		if partial == Weighted {
			weights[i], terms[i].weight = terms[i].weight, 1
		}
	}
	x := Dequantize(p.Dispatch, row, p.Hidden, o.global)
	s := Sum{make([]uint16, p.Hidden), make([]float64, p.Hidden), make([]float64, p.Hidden)}
	shared := p.SharedExpert && o.inSlice(rank, token)
	for c, v := range x {
		for i, t := range terms {
			y[i] = BF16ToFloat(BF16(weights[i] * BF16ToFloat(BF16(v*t.gain))))
		}
		if partial == NoPartial {
			s.Want[c] = BF16(sumInOrder(y, terms, all))
		} else {
			s.Want[c] = sumByRank(y, terms, groups, partial)
		}
		exact, magnitude, partials := exactSum(y, terms, groups)
		bound := bf16Unit * math.Abs(exact)
		if partial == BF16Partial || partial == Weighted {
			bound += bf16Unit * partials * (1 + bf16Unit)
		}
		if shared {
			y := BF16ToFloat(BF16(v * Gain(Shared)))
			s.Want[c] = BF16(BF16ToFloat(s.Want[c]) + y)
			exact += float64(y)
			bound += bf16Unit * (math.Abs(exact) + bound)
		}
		s.Exact[c] = exact
		s.Bound[c] = bound + float64(len(terms)+1)*f32Unit*magnitude + 1e-38
	}
	return s
}

// Epilogue adds a bias to each finished value, or multiplies by a power of two.
type Epilogue struct {
	Scale float64  // used if Bias is nil
	Bias  []uint16 // [hidden] BF16 numbers, or nil
}

func (e *Epilogue) apply(s Sum) {
	if e == nil {
		return
	}
	for i := range s.Exact {
		if e.Bias == nil {
			s.Exact[i], s.Bound[i] = s.Exact[i]*e.Scale, s.Bound[i]*e.Scale
		} else {
			s.Exact[i] += float64(BF16ToFloat(e.Bias[i]))
			s.Bound[i] += bf16Unit * (math.Abs(s.Exact[i]) + s.Bound[i])
		}
		s.Want[i] = BF16(float32(s.Exact[i]))
	}
}

type term struct {
	rank   int
	gain   float32
	weight float32
}

// terms returns a token's selections in top-k order.
func (o *Oracle) terms(rank, token int) []term {
	p := o.w.Problem
	r := o.w.Ranks[o.w.BatchRank(rank)]
	var out []term
	for k := range p.TopK {
		e := int(r.Experts[token*p.TopK+k])
		if e < 0 || p.SkipA2A && e/p.LocalExperts() != rank {
			continue
		}
		out = append(out, term{e / p.LocalExperts(), Gain(e), r.Weights[token*p.TopK+k]})
	}
	return out
}

func (o *Oracle) inSlice(rank, token int) bool {
	start, count := o.w.SharedSlice(rank)
	return token >= start && token < start+count
}

// sumInOrder sums weight times y over the terms `which`. The conversion to float32 prevents a fused multiply-add.
func sumInOrder(y []float32, terms []term, which []int) float32 {
	var acc float32
	for _, i := range which {
		acc += float32(terms[i].weight * y[i])
	}
	return acc
}

func byRank(terms []term) [][]int {
	var groups [][]int
	sorted := upTo(len(terms))
	slices.SortStableFunc(sorted, func(a, b int) int { return terms[a].rank - terms[b].rank })
	for i, t := range sorted {
		if i == 0 || terms[t].rank != terms[sorted[i-1]].rank {
			groups = append(groups, nil)
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], t)
	}
	return groups
}

func sumByRank(y []float32, terms []term, groups [][]int, partial Partial) uint16 {
	var acc float32
	for _, g := range groups {
		sum := sumInOrder(y, terms, g)
		if partial != F32Partial {
			sum = BF16ToFloat(BF16(sum))
		}
		acc += sum
	}
	return BF16(acc)
}

// exactSum returns the float64 sum, the sum of |term| and the sum of |partial sum|.
func exactSum(y []float32, terms []term, groups [][]int) (sum, magnitude, partials float64) {
	for _, g := range groups {
		var partial float64
		for _, i := range g {
			v := float64(terms[i].weight) * float64(y[i])
			partial += v
			magnitude += math.Abs(v)
		}
		sum += partial
		partials += math.Abs(partial)
	}
	return sum, magnitude, partials
}
