package pack

import (
	"slices"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/tune/ep"
)

// heapAlign is the alignment of every part of the heap, in bytes.
const heapAlign = 256

func aligned(n uint64) uint64 { return (n + heapAlign - 1) / heapAlign * heapAlign }

// HeapBytes returns the device memory in bytes that a rank needs for `inFlight` calls at a time. If no dtype is given,
// all dtypes count.
func (p *Pack) HeapBytes(inFlight int, dtypes ...ep.DType) int64 {
	chosen := make([]bool, len(p.dtypes))
	for i, d := range p.DTypes {
		chosen[i] = len(dtypes) == 0 || slices.Contains(dtypes, d)
	}
	return int64(p.aroundBytes() + uint64(inFlight)*total(p.slot(chosen)))
}

func (p *Pack) aroundBytes() uint64 {
	q := p.Problem
	switch {
	case q.Nodes > 1:
		return 2*heapAlign + aligned(16*uint64(q.Ranks))
	case q.Layout == ep.LayoutRankPacked:
		words := q.Ranks + q.LocalExperts() + 1
		return 2*heapAlign + aligned(256+uint64(16*q.Ranks*(words+q.MaxTokens*q.TopK)))
	}
	return 2 * heapAlign
}

func (p *Pack) of(d ep.DType) ep.Problem {
	q := p.Problem
	q.Dispatch = d
	return q
}

// Area is device memory of one call in flight.
type Area struct {
	For   string // purpose
	Bytes uint64
}

const (
	forOutputs = "received rows"
	forTokens  = "tokens on their way"
	forReturn  = "rows on their way back"
	forWords   = "counts and routes"
)

var purposeOf = map[string]string{
	"slots": forTokens, "send": forTokens, "recv": forTokens, "relay": forTokens,
	"return": forReturn, "polled": forReturn, "gather": forReturn, "sums": forReturn,
}

// Areas lists the memory of one call in flight for all dtypes.
func (p *Pack) Areas() []Area {
	chosen := slices.Repeat([]bool{true}, len(p.dtypes))
	var out []Area
	for _, a := range p.slot(chosen) {
		at := slices.IndexFunc(out, func(b Area) bool { return b.For == a.For })
		if at < 0 {
			at, out = len(out), append(out, Area{For: a.For})
		}
		out[at].Bytes += a.Bytes
	}
	return out
}

func total(all []Area) (bytes uint64) {
	for _, a := range all {
		bytes += a.Bytes
	}
	return bytes
}

// slot lists the memory of one call in flight. It must agree with native/epcomm/src/heap.c.
func (p *Pack) slot(chosen []bool) []Area {
	var out, scales, y uint64
	var index declare.Index
	h := p.head
	for i, d := range p.dtypes {
		if chosen[i] {
			out, scales = max(out, d.OutBytes), max(scales, d.ScaleBytes)
			if p.Problem.Nodes > 1 { // NVSHMEM reads the experts' outputs
				y = max(y, d.MaxRows*uint64(h.Hidden)*2)
			}
			of := declare.IndexOf(p.of(p.DTypes[i]))
			index.ExpertIDs, index.SrcInfo = max(index.ExpertIDs, of.ExpertIDs), max(index.SrcInfo, of.SrcInfo)
			index.ScaleOffsets = max(index.ScaleOffsets, of.ScaleOffsets)
		}
	}
	outputs := aligned(out) + aligned(scales) + aligned(4*(uint64(h.Groups)+1)) +
		aligned(uint64(index.ExpertIDs)) + aligned(uint64(index.SrcInfo)) + aligned(uint64(index.ScaleOffsets))
	agree := 16*max(uint64(p.Problem.Ranks), 8) + 8 // words of debug mode
	areas := []Area{{forOutputs, outputs}, {forReturn, aligned(y)}, {forWords, aligned(agree) + p.idBytes()}}
	return append(areas, p.shared(chosen)...)
}

func (p *Pack) idBytes() uint64 {
	if p.head.Flags&flagSurvivors == 0 {
		return 0 // kernels read the caller's ids
	}
	return 2 * aligned(4*uint64(p.head.MaxTokens)*uint64(p.head.TopK)) // one copy for dispatch, one for combine
}

// shared lists the memory of the states. All calls in a slot use this memory, one call after the other. Memory that
// several states have in common counts once.
func (p *Pack) shared(chosen []bool) (out []Area) {
	areas, numbers := map[uint16]int{}, map[[2]uint16]bool{}
	for _, s := range p.states {
		if !chosen[s.DType] {
			continue
		}
		for op, group := range s.Numbers {
			key := [2]uint16{uint16(op), group}
			if group != 0 && numbers[key] {
				continue
			}
			numbers[key] = true
			out = append(out, Area{forWords, aligned(4 * declare.RoundWords)})
			if op == 0 {
				out = append(out, Area{forWords, aligned(4 * uint64(s.Counters))})
			}
		}
		for _, r := range p.regions[s.FirstRegion : s.FirstRegion+s.Regions] {
			at, known := areas[r.Area]
			if r.Area == 0 || !known {
				at, out = len(out), append(out, Area{For: p.purpose(r)})
				areas[r.Area] = at
			}
			out[at].Bytes = max(out[at].Bytes, aligned(r.Bytes))
		}
	}
	return out
}

func (p *Pack) purpose(r regionRecord) string {
	if what, ok := purposeOf[p.text(r.Name)]; ok {
		return what
	}
	return forWords
}
