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
	PartAbort        = "abort" // counters of kernels that belong to no state
	PartX            = "x"
	PartIDs          = "topk_ids"
	PartWeights      = "weights"
	PartInputScale   = "input_scales"
	PartBias         = "bias"
	PartCast         = "x_cast" // tokens that the caller cast
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

// TimingParts lists the parts that aligning and timing the ranks need.
func TimingParts() []Region {
	return []Region{
		Zeroed(PartControl, 256),
		Zeroed(PartAbort, 4),
		Zeroed(PartReadings, 8*ReadingWords),
	}
}

// ProblemParts lists the inputs and outputs of a problem.
func ProblemParts(p ep.Problem) []Region {
	tokens, hidden, topK := int64(p.MaxTokens), int64(p.Hidden), int64(p.TopK)
	parts := []Region{
		Zeroed(PartX, tokens*hidden*2),
		Zeroed(PartIDs, tokens*topK*4),
		Zeroed(PartWeights, tokens*topK*4),
		Zeroed(PartInputScale, max(4, tokens*int64(encodingOf(p).Scales)*4)),
		Zeroed(PartBias, hidden*2),
	}
	if p.Mode == ep.Cold {
		parts = append(parts, Zeroed(PartFlush, FlushBytes))
	}
	return append(parts, OutputParts(p)...)
}

// CastParts lists the parts for tokens that the caller cast to FP8, or nil.
func CastParts(p ep.Problem) []Region {
	if !MayCast(p) {
		return nil
	}
	l := encodingOf(p)
	return []Region{
		Zeroed(PartCast, int64(p.MaxTokens)*int64(l.Payload)),
		Zeroed(PartCastScales, int64(p.MaxTokens)*int64(l.Scales*l.ScaleBytes)),
	}
}

// MayCast reports whether a dispatch of the problem may take tokens that its caller cast.
func MayCast(p ep.Problem) bool { return p.Dispatch == ep.FP8 && p.Nodes <= 1 }

// OutputParts lists the parts that dispatch, experts and combine write. The fields of EpArgs hold, for each layout:
//
//	               expert                 masked                     rank                   rank:packed
//	out            [max_rows]             [local, capacity]          [ranks, max_tokens]    [ranks * max_tokens]
//	out_scales fp8 [hidden/128, max_rows] [local, hidden/128, cap.]  [rows, hidden/128]     [rows, hidden/128]
//	row_offsets    first row of a group   rows of a group, of all    rows of a source       first row of a source
//	expert_ids     [groups]               [local, ranks] u64 ranges  [rows, topk] local     [rows, topk] local
//	src_info       [rows, 2] token, k     [rows, 2] token, k, then   [rows, 2] token, rank, then [max_tokens] for combine
//	                                      what combine needs
//	scale_offsets  nvfp4: [groups]        unused                     [rows, topk] weights   [rows, topk] weights
func OutputParts(p ep.Problem) []Region {
	rows, groups, hidden := int64(dtype.MaxRows(p)), int64(dtype.Groups(p)), int64(p.Hidden)
	l := encodingOf(p)
	index := IndexOf(p)
	parts := []Region{
		Poisoned(PartOut, rows*int64(l.Payload)),
		Poisoned(PartScales, int64(dtype.OutputScaleBytes(l, int(groups), int(rows)))),
		Poisoned(PartRowOffsets, (groups+1)*4),
		Poisoned(PartExpertIDs, index.ExpertIDs),
		Poisoned(PartSrcInfo, index.SrcInfo),
		Poisoned(PartScaleOffsets, index.ScaleOffsets),
	}
	if p.Op != ep.Dispatch {
		parts = append(parts,
			Poisoned(PartY, rows*hidden*2),
			Poisoned(PartCombined, int64(p.MaxTokens*p.TopK)*hidden*2))
	}
	return parts
}

// Index holds the sizes, in bytes, of the outputs that describe rows.
type Index struct{ ExpertIDs, SrcInfo, ScaleOffsets int64 }

// IndexOf returns the sizes for a problem's layout. native/epcomm/src/pack.c computes them too.
func IndexOf(p ep.Problem) Index {
	rows, groups := int64(dtype.MaxRows(p)), int64(dtype.Groups(p))
	switch selections := rows * int64(p.TopK) * 4; p.Layout.Kind() {
	case "masked":
		route := int64(p.Ranks) * (int64(p.MaxTokens)*int64(1+p.TopK) + 1) * 4
		return Index{groups * int64(p.Ranks) * 8, rows*8 + route, groups * 4}
	case "rank":
		return Index{selections, rows*8 + int64(p.MaxTokens)*4, selections}
	}
	return Index{groups * 4, rows * 8, groups * 4}
}

// StateParts lists the memory of a state: call numbers, counters and regions.
func StateParts(s State, p ep.Problem) []Region {
	parts := []Region{
		Zeroed(s.Part("rounds"), 8),
		Zeroed(s.Part("counters"), int64(s.counters(p))*4),
	}
	for _, r := range s.regions(p) {
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

// sizes holds what the sizes of regions depend on.
type sizes struct {
	ranks, tokens, topK, experts, local, sources, nodes int64
	row                                                 int64 // bytes of a BF16 row
}

func sizesOf(p ep.Problem) sizes {
	return sizes{int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK), int64(p.Experts), int64(p.LocalExperts()), int64(dtype.Sources(p)), int64(p.Nodes),
		int64(2 * p.Hidden)}
}
