// Package ref is the oracle: it computes the correct outputs of dispatch, combine and activation kernels, and
// compares outputs of backends with them. It shares no code with the backends.
//
// # What is computed
//
// A rank's output of dispatch has a group of rows for each local expert. A group has a segment for each source rank,
// with tokens in any order. A fused shared expert is group 0: the rank's own tokens in order.
// With FP8, groups are padded to multiples of four rows; padding is neither written nor checked.
//
// Between dispatch and combine, y = bf16(dequantize(x) * workloads.ExpertGain) replaces the experts' work. For each
// token, combine sums weight*y in float32 in the order of k, and rounds to BF16. The shared expert's row is added in
// BF16.
//
// # Tolerance
//
// A dispatched row must have the oracle's bytes.
//
// A combined value may differ from the float64 sum. Each rounding to BF16 adds 2^-8 of its result to the bound.
// Float32 arithmetic adds (K+1)*2^-24 of the sum of magnitudes. With Compare.Bits the bits must be exact.
//
// # Layouts
//
// In the layouts by rank, a rank receives a token once, with the local expert and the weight of each top-k position.
// The rank adds the weighted outputs of its experts in float32 and rounds to BF16. Combine adds these sums in the
// order of ranks.
package ref

import (
	"sync"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Shared is the shared expert's id.
const Shared = -1

// Oracle computes the correct outputs for one workload. It is safe for several goroutines.
type Oracle struct {
	w          *workloads.Workload
	global     float32
	tokens     *cache[Row]
	sums       *cache[sumBounds]
	deliveries []func() Delivery
}

// New returns the oracle of a workload. inputScale is NVFP4's global input scale, otherwise 1.
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

// Item is one delivered row. K is the top-k position, or -1 for the shared expert and in layouts by rank.
type Item struct{ Token, K int }

// Group holds the rows of one expert, or of one source rank in the layouts by rank.
type Group struct {
	Expert  int // id, Shared, or source rank
	Sources []int
	Items   [][]Item // [source], tokens ascending
}

// Rows returns the number of the group's rows, without padding.
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
	End          int      // end of the last group
	RowOffsets   []uint32 // [groups+1] first rows; for groups of fixed capacity, counts of rows and their total
	ScaleOffsets []uint32 // [groups] NVFP4: first scale block minus RowOffsets/128
}

func (d Delivery) rows() int {
	n := 0
	for _, g := range d.Groups {
		n += g.Rows()
	}
	return n
}

// Dispatch returns the rows that a rank receives; do not change them.
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

// Cast returns a source rank's tokens in FP8.
func (o *Oracle) Cast(source int) (payload, scales []byte) {
	for token := range o.w.Ranks[o.w.BatchRank(source)].Tokens {
		row := o.Token(source, token)
		payload = append(payload, row.Payload...)
		scales = append(scales, row.Scales...)
	}
	return payload, scales
}

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

func (o *Oracle) Encoding() dtype.Encoding {
	return dtype.Of(o.w.Problem.Dispatch, o.w.Problem.Hidden)
}
