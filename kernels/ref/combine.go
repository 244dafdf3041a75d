package ref

import (
	"math"
	"slices"
)

// Sum is what combine must leave for one token.
type Sum struct {
	Want  []uint16  // [hidden] BF16 bits of the in-order float32 sum
	Exact []float64 // [hidden] the sum in float64, before any rounding of sums
	Bound []float64 // [hidden] how far from Exact a right answer may lie
}

// Unit roundoffs: half a unit in the last place, relative. BF16 has eight
// significant bits, float32 24.
const (
	bf16Unit = 1. / (1 << 8)
	f32Unit  = 1. / (1 << 24)
)

// CombineRow sums the experts' rows for one token of a rank. With preReduced
// each expert rank first rounds the sum of its own experts to BF16, as it does in any
// case where rows lie by rank.
func (o *Oracle) CombineRow(rank, token int, preReduced bool) Sum {
	p := o.w.Problem
	preReduced = preReduced || p.Layout.ByRank()
	batch := o.w.Batch(rank)
	terms := o.terms(rank, token)
	all, groups, y := counting(len(terms)), byRank(terms), make([]float32, len(terms))
	x := Dequantize(p.Dispatch, o.Token(batch, token), p.Hidden, o.global)
	s := Sum{make([]uint16, p.Hidden), make([]float64, p.Hidden), make([]float64, p.Hidden)}
	shared := p.SharedExpert && o.inSlice(rank, token)
	for c, v := range x {
		for i, t := range terms {
			y[i] = BF16ToFloat(BF16(v * t.gain)) // as the expert returns it
		}
		if preReduced {
			s.Want[c] = sumByRank(y, terms, groups)
		} else {
			s.Want[c] = sumInOrder(y, terms, all)
		}
		exact, magnitude, partials := exactSum(y, terms, groups)
		bound := bf16Unit * math.Abs(exact)
		if preReduced {
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

// Epilogue is what a combine does to each finished value before it stores it: it adds
// a bias, or multiplies by a power of two, which rounds nothing.
type Epilogue struct {
	Scale float64
	Bias  []uint16 // [hidden] BF16, nil where values are scaled
}

// apply changes a sum as the epilogue does. A bias rounds once more.
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

// term is one selection of a token that takes part in its sum.
type term struct {
	rank   int // where the expert lives
	gain   float32
	weight float32
}

// terms lists a token's selections in top-k order. Under skip_a2a each rank
// sums its own experts only.
func (o *Oracle) terms(rank, token int) []term {
	p := o.w.Problem
	r := o.w.Ranks[o.w.Batch(rank)]
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

// sumInOrder is the sum that combine promises: of the terms that which lists, in
// that order, weight times y, which is what the experts return. The conversion
// to float32 keeps the compiler from fusing multiply and add.
func sumInOrder(y []float32, terms []term, which []int) uint16 {
	var acc float32
	for _, i := range which {
		acc += float32(terms[i].weight * y[i])
	}
	return BF16(acc)
}

// byRank groups terms by the rank of their expert, ranks ascending, and
// leaves the top-k order inside a group.
func byRank(terms []term) [][]int {
	var groups [][]int
	sorted := counting(len(terms))
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

// sumByRank is sumInOrder with partial sums rounded by each expert rank, then
// added in the order of ranks.
func sumByRank(y []float32, terms []term, groups [][]int) uint16 {
	var acc float32
	for _, g := range groups {
		acc += BF16ToFloat(sumInOrder(y, terms, g))
	}
	return BF16(acc)
}

// exactSum is the sum in float64, the sum of the terms' magnitudes, and the
// sum of the magnitudes of the partial sums.
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
