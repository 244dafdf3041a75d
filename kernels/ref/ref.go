// Package ref is the oracle: dispatch, combine, the dtypes and the activation
// kernels in plain, sequential Go. It is written from the specification, and the
// backends that it judges move tokens with other code. Only the checks use
// several processors, each for other rows.
//
// # What is computed
//
// Dispatch delivers each token to each of its experts. A rank's output is
// ragged: groups by local expert, segments by source rank inside a group,
// and inside a segment any order of tokens. A fused shared expert is group 0
// and holds the rank's own tokens in order. FP8 rounds each group up to four
// rows; the rows in between are not written and not judged.
//
// Between dispatch and combine, workloads.ExpertGain stands in for the
// experts: y = bf16(dequantize(x) * gain). Combine returns to each token
// bf16(sum over k in order of weight*y), products and sum in float32, and
// with a shared expert adds its row to that in BF16, rounding a second time.
//
// # Tolerance
//
// A dispatched row must have the oracle's bytes.
//
// A combined value must lie within an a-priori bound of the float64 sum:
// half a BF16 unit (2^-8) of each rounding's result, and (K+1)*2^-24 of the
// sum of magnitudes for float32 arithmetic in any order, fused or not. Rounded
// are the routed sum, with a shared expert the sum with it, and with
// BF16Partial the partial sum of each expert rank. CombineCasts also has the sum of a
// library whose FP8 cast rounds x/s otherwise. Compare.Bits asks for the very bits
// of the sum in its order instead.
//
// # Layouts
//
// With masked, the rows of each local expert lie in a block of fixed size. By rank, a
// token comes once to each rank that has one of its experts, with the local expert
// and weight of each top-k position beside it. Between dispatch and combine the rank
// weights and sums its experts' rows in float32, in top-k order, and rounds to BF16;
// combine adds those rows in the order of ranks.
package ref

import (
	"sync"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Shared stands for the shared expert where an expert id is asked for.
const Shared = -1

// Oracle computes what dispatch and combine of one workload must produce. It keeps
// what it has computed, and is safe for several goroutines.
type Oracle struct {
	w          *workloads.Workload
	global     float32
	tokens     *cache[Row]       // by source rank and token
	sums       *cache[sumBounds] // by kind, rank and token
	deliveries []func() Delivery // by rank
}

// New makes the oracle of a workload. inputScale is NVFP4's global input scale, 1
// where there is none.
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

// Item is one delivered row: a token of its source rank and the top-k
// position that selected the expert, -1 for the shared expert and where a row is for
// all experts of a rank.
type Item struct{ Token, K int }

// Group is the rows of one expert.
type Group struct {
	Expert  int      // global id, or Shared
	Sources []int    // ranks whose tokens follow, in the order of the output
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

// Delivery is what dispatch must leave on one rank.
type Delivery struct {
	Groups       []Group
	First        []int    // [groups] first row of each group
	End          int      // rows of memory that hold them
	RowOffsets   []uint32 // [groups+1] first row of each group, padding included; where groups have a capacity, rows of each group, then of all
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

// Dispatch lists every row that a rank receives. The lists are shared: they
// must not be written to.
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
	return Group{Shared, []int{o.w.Batch(rank)}, [][]Item{items}}
}

// arrange places groups as the problem's layout has them.
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

// follow places groups one after the other, each beginning at a multiple of pad.
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

// Token is one token of a source rank as dispatch delivers it.
func (o *Oracle) Token(source, token int) Row {
	return o.tokens.get(source, token, func() Row {
		return Quantize(o.w.Problem.Dispatch, o.unquantized(source, token), o.global)
	})
}

// Cast is all tokens of a source rank as a caller hands them to a dispatch that does not
// cast: the payload of each, one behind the other, and in the same way their scales.
func (o *Oracle) Cast(source int) (payload, scales []byte) {
	for token := range o.w.Ranks[o.w.Batch(source)].Tokens {
		row := o.Token(source, token)
		payload = append(payload, row.Payload...)
		scales = append(scales, row.Scales...)
	}
	return payload, scales
}

// wide is one token of a source rank in float32, before any cast.
func (o *Oracle) unquantized(source, token int) []float32 {
	x := make([]uint16, o.w.Problem.Hidden)
	o.w.Token(source, token, x)
	wide := make([]float32, len(x))
	for i, b := range x {
		wide[i] = BF16ToFloat(b)
	}
	return wide
}

// Gain is the factor of an expert, or of Shared.
func Gain(expert int) float32 {
	if expert == Shared {
		return workloads.SharedGain
	}
	return workloads.ExpertGain(expert)
}

// Encoding is how a delivered token is stored.
func (o *Oracle) Encoding() dtype.Encoding {
	return dtype.Of(o.w.Problem.Dispatch, o.w.Problem.Hidden)
}
