// Package ref is the oracle: dispatch, combine, the dtypes and the activation kernels in
// plain, sequential Go. It is written from the specification and shares no code with the
// backends that it checks. Only the comparisons run in parallel, over rows.
//
// # What is computed
//
// Dispatch delivers each token to each of its experts. A rank's output is ragged: it has a
// group for each local expert and in it a segment for each source rank, with tokens in any
// order. A fused shared expert is group 0 and holds the rank's own tokens in order. FP8
// rounds each group up to four rows; nobody writes or checks the padding.
//
// Between dispatch and combine, a gain replaces the experts:
// y = bf16(dequantize(x) * workloads.ExpertGain). Combine returns to each token
// bf16(sum over k in order of weight*y), with products and sum in float32. With a shared
// expert it adds the shared row to that in BF16, which rounds a second time.
//
// # Tolerance
//
// A dispatched row must have the oracle's bytes.
//
// A combined value must lie within an a-priori bound of the float64 sum: half a BF16 unit
// (2^-8) of the result of each rounding, and (K+1)*2^-24 of the sum of magnitudes for float32
// arithmetic in any order, fused or not. The roundings are that of the routed sum, that of the
// sum with a shared expert, and with BF16Partial that of each expert rank's partial sum.
// CombineCasts adds the sum of a library whose FP8 cast rounds x/s differently. With
// Compare.Bits a value must have the exact bits of the sum in its order instead.
//
// # Layouts
//
// In layout masked, the rows of each local expert lie in a block of fixed size. In the layouts
// by rank, a rank receives a token once if it has one of its experts, with the local expert
// and the weight of each top-k position. Between dispatch and combine the rank weights and
// sums its experts' rows in float32, in top-k order, and rounds to BF16. Combine adds those
// rows in the order of ranks.
package ref

import (
	"sync"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Shared is the expert id of the shared expert.
const Shared = -1

// Oracle computes the correct outputs of dispatch and combine for one workload. It caches
// them, and is safe for several goroutines.
type Oracle struct {
	w          *workloads.Workload
	global     float32
	tokens     *cache[Row]       // by source rank and token
	sums       *cache[sumBounds] // by kind, rank and token
	deliveries []func() Delivery // by rank
}

// New returns the oracle of a workload. inputScale is NVFP4's global input scale, 1 if there
// is none.
func New(w *workloads.Workload, inputScale float32) *Oracle {
	o := &Oracle{w: w, global: inputScale,
		tokens: newCache(len(w.Ranks), cachedTokens, func(r Row) int { return len(r.Payload) + len(r.Scales) }),
		sums:   newCache(sumKinds*len(w.Ranks), cachedSums, sumBounds.bytes),
	}
	for rank := range w.Ranks {
		o.deliveries = append(o.deliveries, sync.OnceValue(func() Delivery { return o.deliver(rank) }))
	}
	return o
}

// Item is one delivered row: a token of its source rank and the top-k position that selected
// the expert. K is -1 for the shared expert, and for a row that serves all experts of a rank.
type Item struct{ Token, K int }

// Group holds the rows of one expert, or of one source rank in the layouts by rank.
type Group struct {
	Expert  int      // global id, or Shared
	Sources []int    // source ranks, in the order of the output
	Items   [][]Item // [source], tokens ascending
}

// Rows counts the group's rows, without padding.
func (g Group) Rows() int {
	n := 0
	for _, items := range g.Items {
		n += len(items)
	}
	return n
}

// Delivery is the correct output of dispatch on one rank.
type Delivery struct {
	Groups       []Group
	First        []int    // [groups] first row of each group
	End          int      // rows of memory up to the end of the last group
	RowOffsets   []uint32 // [groups+1] first row of each group, padding included; for groups of fixed capacity, the rows of each group, then of all
	ScaleOffsets []uint32 // [groups] NVFP4: group's first scale block minus RowOffsets/128
}

// rows counts the rows of all groups, without padding.
func (d Delivery) rows() int {
	n := 0
	for _, g := range d.Groups {
		n += g.Rows()
	}
	return n
}

// Dispatch returns every row that a rank receives. The slices are shared: do not change them.
func (o *Oracle) Dispatch(rank int) Delivery { return o.deliveries[rank]() }

func (o *Oracle) deliver(rank int) Delivery {
	p := o.w.Problem
	if p.Layout.ByRank() {
		return placeGroups(p, o.bySource(rank))
	}
	var groups []Group
	if p.SharedExpert {
		groups = append(groups, o.sharedGroup(rank))
	}
	sources := []int{0}
	if !p.SkipA2A {
		sources = upTo(p.Ranks)
	}
	local := p.LocalExperts()
	byExpert := make([][][]Item, local)
	for e := range byExpert {
		byExpert[e] = make([][]Item, len(sources))
	}
	for i, s := range sources {
		for j, e := range o.w.Ranks[s].Experts {
			if first := rank * local; int(e) >= first && int(e) < first+local {
				of := &byExpert[int(e)-first][i]
				*of = append(*of, Item{j / p.TopK, j % p.TopK})
			}
		}
	}
	for e, items := range byExpert {
		groups = append(groups, Group{rank*local + e, sources, items})
	}
	return placeGroups(p, groups)
}

func (o *Oracle) sharedGroup(rank int) Group {
	start, count := o.w.SharedSlice(rank)
	items := make([]Item, count)
	for i := range items {
		items[i] = Item{start + i, -1}
	}
	return Group{Shared, []int{o.w.BatchRank(rank)}, [][]Item{items}}
}

// placeGroups assigns rows to groups as the problem's layout requires.
func placeGroups(p ep.Problem, groups []Group) Delivery {
	room := dtype.Capacity(p)
	if room == 0 {
		return packGroups(groups, dtype.RowPad(p))
	}
	d := Delivery{Groups: groups, End: room * len(groups), RowOffsets: make([]uint32, len(groups)+1)}
	for i, g := range groups {
		d.First = append(d.First, i*room)
		d.RowOffsets[i] = uint32(g.Rows())
		d.RowOffsets[len(groups)] += d.RowOffsets[i]
	}
	return d
}

// packGroups places groups one after the other, each at a multiple of pad rows.
func packGroups(groups []Group, pad int) Delivery {
	d := Delivery{Groups: groups, RowOffsets: make([]uint32, len(groups)+1)}
	blocks := 0
	for i, g := range groups {
		d.First = append(d.First, int(d.RowOffsets[i]))
		n := g.Rows()
		d.RowOffsets[i+1] = d.RowOffsets[i] + uint32((n+pad-1)/pad*pad)
		d.ScaleOffsets = append(d.ScaleOffsets, uint32(blocks)-d.RowOffsets[i]/dtype.ScaleBlockRows)
		blocks += (n + dtype.ScaleBlockRows - 1) / dtype.ScaleBlockRows
	}
	d.End = int(d.RowOffsets[len(groups)])
	return d
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// Token returns one token of a source rank as dispatch delivers it.
func (o *Oracle) Token(source, token int) Row {
	return o.tokens.get(source, token, func() Row {
		return Quantize(o.w.Problem.Dispatch, o.unquantized(source, token), o.global)
	})
}

// Cast returns all tokens of a source rank as the input of a dispatch that does not cast: the
// concatenated payloads and the concatenated scales.
func (o *Oracle) Cast(source int) (payload, scales []byte) {
	for token := range o.w.Ranks[o.w.BatchRank(source)].Tokens {
		row := o.Token(source, token)
		payload = append(payload, row.Payload...)
		scales = append(scales, row.Scales...)
	}
	return payload, scales
}

// unquantized returns one token of a source rank in float32, before any cast.
func (o *Oracle) unquantized(source, token int) []float32 {
	x := make([]uint16, o.w.Problem.Hidden)
	o.w.Token(source, token, x)
	wide := make([]float32, len(x))
	for i, b := range x {
		wide[i] = BF16ToFloat(b)
	}
	return wide
}

// Gain returns the gain of an expert or of Shared.
func Gain(expert int) float32 {
	if expert == Shared {
		return workloads.SharedGain
	}
	return workloads.ExpertGain(expert)
}

// Encoding returns how a delivered token is stored.
func (o *Oracle) Encoding() dtype.Encoding {
	return dtype.Of(o.w.Problem.Dispatch, o.w.Problem.Hidden)
}
