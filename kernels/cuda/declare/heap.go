package declare

import (
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// regionAlign is the alignment of every part of the heap, in bytes.
const regionAlign = 256

// Names of the parts of the heap that are not regions of a state.
const (
	PartControl      = "control"
	PartReadings     = "readings"
	PartAbort        = "abort" // abort word of the kernels that have no State; a State has its own
	PartX            = "x"
	PartIDs          = "topk_ids"
	PartWeights      = "weights"
	PartInputScale   = "input_scales"
	PartBias         = "bias"
	PartCast         = "x_cast" // tokens that the caller converted to FP8
	PartCastScales   = "x_cast_scales"
	PartOut          = ref.PartOut
	PartScales       = ref.PartScales
	PartRowOffsets   = ref.PartRowOffsets
	PartExpertIDs    = ref.PartExpertIDs
	PartSrcInfo      = ref.PartSrcInfo
	PartScaleOffsets = ref.PartScaleOffsets
	PartY            = "y"
	PartCombined     = ref.PartCombined
	PartFlush        = "flush"
	PartWorld        = "world" // the table of hosts/transport.cuh
)

// FlushBytes is the number of bytes that cold mode writes on each GPU before a call.
const FlushBytes = 256 << 20

// Heap describes the memory of one rank. Every rank has the same parts at the same offsets.
type Heap struct {
	Parts  []Region
	Offset map[string]int64
	Bytes  int64
}

// NewHeap places the parts one after the other.
func NewHeap(parts []Region) Heap {
	h := Heap{Parts: parts, Offset: map[string]int64{}}
	for _, p := range parts {
		h.Offset[p.Name] = h.Bytes
		h.Bytes += (p.Bytes + regionAlign - 1) / regionAlign * regionAlign
	}
	return h
}

// ReadingWords is the number of 64-bit words that each rank has for time stamps and spans.
const ReadingWords = 1 << 17

// TimingParts lists the parts for the kernels that align the ranks in time and measure times.
func TimingParts() []Region {
	return []Region{Zeroed(PartControl, 256), Zeroed(PartAbort, 4), Zeroed(PartReadings, 8*ReadingWords)}
}

// ProblemParts lists the inputs and outputs of a problem.
func ProblemParts(p ep.Problem) []Region {
	z, l := sizesOf(p), encodingOf(p)
	parts := []Region{
		Zeroed(PartX, z.tokens*z.row),
		Zeroed(PartIDs, z.tokens*z.topK*4),
		Zeroed(PartWeights, z.tokens*z.topK*4),
		Zeroed(PartInputScale, max(4, z.tokens*int64(l.Scales)*4)),
		Zeroed(PartBias, z.row),
	}
	if p.Mode == ep.Cold {
		parts = append(parts, Zeroed(PartFlush, FlushBytes))
	}
	return append(parts, OutputParts(p)...)
}

// CastParts lists the parts for tokens that the caller converted to FP8. It returns nil if MayCast is false.
func CastParts(p ep.Problem) []Region {
	if !MayCast(p) {
		return nil
	}
	z, l := sizesOf(p), encodingOf(p)
	return []Region{Zeroed(PartCast, z.tokens*int64(l.Payload)), Zeroed(PartCastScales, z.tokens*int64(l.Scales*l.ScaleBytes))}
}

// MayCast reports whether a dispatch of the problem may take tokens that the caller converted to FP8.
func MayCast(p ep.Problem) bool { return p.Dispatch == ep.FP8 && p.Nodes <= 1 }

// OutputParts lists the parts that dispatch, experts and combine write. The table shows what a dispatch writes, for
// each field of EpArgs and each layout. The end of src_info, behind the entries of all rows, is only for combines:
//
//	               expert                 masked                     rank                   rank:packed
//	out            [max_rows]             [local, capacity]          [ranks, max_tokens]    [ranks * max_tokens]
//	out_scales fp8 [hidden/128, max_rows] [local, hidden/128, cap.]  [rows, hidden/128]     [rows, hidden/128]
//	row_offsets    first row of a group   rows of each group, total  rows of a source       first row of a source
//	expert_ids     [groups]               [local, ranks] u64 ranges  [rows, topk] local     [rows, topk] local
//	src_info       [rows, 2] token, k     [rows, 2] token, k         [rows, 2] token, rank  [rows, 2] token, rank
//	  its end      nothing                see masked/layout.cuh      [max_tokens]             [max_tokens]
//	scale_offsets  nvfp4: [groups]        unused                     [rows, topk] weights   [rows, topk] weights
func OutputParts(p ep.Problem) []Region {
	z, l, index := sizesOf(p), encodingOf(p), IndexOf(p)
	parts := []Region{
		Poisoned(PartOut, z.rows*int64(l.Payload)),
		Poisoned(PartScales, int64(dtype.OutputScaleBytes(l, int(z.groups), int(z.rows)))),
		Poisoned(PartRowOffsets, (z.groups+1)*4),
		Poisoned(PartExpertIDs, index.ExpertIDs),
		Poisoned(PartSrcInfo, index.SrcInfo),
		Poisoned(PartScaleOffsets, index.ScaleOffsets),
	}
	if p.Op != ep.Dispatch {
		parts = append(parts, Poisoned(PartY, z.rows*z.row), Poisoned(PartCombined, z.tokens*z.topK*z.row))
	}
	return parts
}

// Index holds the sizes, in bytes, of the outputs that describe rows.
type Index struct{ ExpertIDs, SrcInfo, ScaleOffsets int64 }

// IndexOf returns the sizes for a problem's layout. native/epcomm/src/pack.c computes them too.
func IndexOf(p ep.Problem) Index {
	z := sizesOf(p)
	switch p.Layout.Kind() {
	case "masked":
		route := z.ranks * (z.tokens*(1+z.topK) + 1) * 4
		return Index{z.groups * z.ranks * 8, z.rows*8 + route, z.groups * 4}
	case "rank":
		return Index{z.rows * z.topK * 4, z.rows*8 + z.tokens*4, z.rows * z.topK * 4}
	}
	return Index{z.groups * 4, z.rows * 8, z.groups * 4}
}

// StateParts lists the memory of a state: call numbers, counters and regions.
func StateParts(s State, p ep.Problem) []Region {
	parts := []Region{
		Zeroed(s.Part("rounds"), 8),
		Zeroed(s.Part("counters"), int64(s.counters(p))*4),
	}
	for _, r := range s.RegionsFor(p) {
		r.Name = s.Part(r.Name)
		parts = append(parts, r)
	}
	return parts
}

// OpIndex returns the index of an op's call number among the two call numbers of a state.
func OpIndex(op ep.Op) int64 {
	if op == ep.Combine {
		return 1
	}
	return 0
}

type sizes struct {
	ranks, nodes, tokens, topK, experts, local int64
	rows, groups                               int64 // of the output of a dispatch
	sources                                    int64 // ranks that send rows to one expert
	row                                        int64 // bytes of a BF16 row
	token                                      int64 // bytes of a token in a message, with padding
	direct, dedup                              int64 // bytes of a message of the ep kernels with algo=direct and with algo=dedup

	encoding dtype.Encoding // of a token
}

func sizesOf(p ep.Problem) sizes {
	l := encodingOf(p)
	message := l.Message(p.TopK)
	return sizes{
		ranks: int64(p.Ranks), nodes: int64(p.Nodes), tokens: int64(p.MaxTokens), topK: int64(p.TopK), experts: int64(p.Experts),
		local: int64(p.LocalExperts()), rows: int64(dtype.MaxRows(p)), groups: int64(dtype.Groups(p)), sources: int64(dtype.Sources(p)), row: int64(2 * p.Hidden),
		token: int64(l.TokenBytes()), direct: int64(message.Bytes), dedup: int64(message.Dedup), encoding: l,
	}
}
