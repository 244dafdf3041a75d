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
// Compare.PreReduced the partial sum of each expert rank. Compare.Bits asks for
// the very bits of the in-order sum instead.
package ref

import (
	"sync"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/workloads"
)

// Shared stands for the shared expert where an expert id is asked for.
const Shared = -1

// Oracle computes what dispatch and combine of one workload must produce. It keeps
// what it has computed, and is safe for several goroutines.
type Oracle struct {
	w          *workloads.Workload
	global     float32
	cache      *rowCache
	deliveries []func() Delivery // by rank
}

// New makes the oracle of a workload. inputScale is NVFP4's global input scale, 1
// where there is none.
func New(w *workloads.Workload, inputScale float32) *Oracle {
	o := &Oracle{w: w, global: inputScale, cache: newRowCache(len(w.Ranks))}
	for rank := range w.Ranks {
		o.deliveries = append(o.deliveries, sync.OnceValue(func() Delivery { return o.deliver(rank) }))
	}
	return o
}

// Item is one delivered row: a token of its source rank and the top-k
// position that selected the expert, -1 for the shared expert.
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
	RowOffsets   []uint32 // [groups+1] first row of each group, padding included
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
	var groups []Group
	if p.SharedExpert {
		groups = append(groups, o.sharedGroup(rank))
	}
	sources := []int{0}
	if !p.SkipA2A {
		sources = counting(p.Ranks)
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
	return layout(groups, dtype.RowPad(p.Dispatch))
}

func (o *Oracle) sharedGroup(rank int) Group {
	start, count := o.w.SharedSlice(rank)
	items := make([]Item, count)
	for i := range items {
		items[i] = Item{start + i, -1}
	}
	return Group{Shared, []int{o.w.Batch(rank)}, [][]Item{items}}
}

func layout(groups []Group, pad int) Delivery {
	d := Delivery{Groups: groups, RowOffsets: make([]uint32, len(groups)+1)}
	blocks := 0
	for i, g := range groups {
		n := g.Rows()
		d.RowOffsets[i+1] = d.RowOffsets[i] + uint32((n+pad-1)/pad*pad)
		d.ScaleOffsets = append(d.ScaleOffsets, uint32(blocks)-d.RowOffsets[i]/dtype.ScaleBlockRows)
		blocks += (n + dtype.ScaleBlockRows - 1) / dtype.ScaleBlockRows
	}
	return d
}

func counting(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// Token is one token of a source rank as dispatch delivers it.
func (o *Oracle) Token(source, token int) Row {
	return o.cache.get(source, token, func() Row {
		x := make([]uint16, o.w.Problem.Hidden)
		o.w.Token(source, token, x)
		wide := make([]float32, len(x))
		for i, b := range x {
			wide[i] = BF16ToFloat(b)
		}
		return Quantize(o.w.Problem.Dispatch, wide, o.global)
	})
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
