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
// each expert rank first rounds the sum of its own experts to BF16.
func (o *Oracle) CombineRow(rank, token int, preReduced bool) Sum {
	p := o.w.Problem
	batch := o.w.Batch(rank)
	terms := o.terms(rank, token)
	groups := byRank(terms)
	x := Dequantize(p.Dispatch, o.Token(batch, token), p.Hidden, o.global)
	s := Sum{make([]uint16, p.Hidden), make([]float64, p.Hidden), make([]float64, p.Hidden)}
	shared := p.SharedExpert && o.inSlice(rank, token)
	for c, v := range x {
		if preReduced {
			s.Want[c] = sumByRank(v, groups)
		} else {
			s.Want[c] = sumInOrder(v, terms)
		}
		exact, magnitude, partials := exactSum(v, groups)
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

// sumInOrder is the contract of combine. The conversions keep the compiler
// from fusing multiply and add.
func sumInOrder(x float32, terms []term) uint16 {
	var acc float32
	for _, t := range terms {
		acc += float32(t.weight * BF16ToFloat(BF16(x*t.gain)))
	}
	return BF16(acc)
}

// byRank groups terms by the rank of their expert, ranks ascending, and
// leaves the top-k order inside a group.
func byRank(terms []term) [][]term {
	var groups [][]term
	sorted := slices.Clone(terms)
	slices.SortStableFunc(sorted, func(a, b term) int { return a.rank - b.rank })
	for i, t := range sorted {
		if i == 0 || t.rank != sorted[i-1].rank {
			groups = append(groups, nil)
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], t)
	}
	return groups
}

// sumByRank is sumInOrder with partial sums rounded by each expert rank, then
// added in the order of ranks.
func sumByRank(x float32, groups [][]term) uint16 {
	var acc float32
	for _, g := range groups {
		acc += BF16ToFloat(sumInOrder(x, g))
	}
	return BF16(acc)
}

// exactSum is the sum in float64, the sum of the terms' magnitudes, and the
// sum of the magnitudes of the partial sums.
func exactSum(x float32, groups [][]term) (sum, magnitude, partials float64) {
	for _, g := range groups {
		var partial float64
		for _, t := range g {
			v := float64(t.weight) * float64(BF16ToFloat(BF16(x*t.gain)))
			partial += v
			magnitude += math.Abs(v)
		}
		sum += partial
		partials += math.Abs(partial)
	}
	return sum, magnitude, partials
}
