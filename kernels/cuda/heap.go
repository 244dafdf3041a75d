package cuda

import (
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// regionAlign is the boundary every part of the heap starts on.
const regionAlign = 256

// Names of the parts of the heap that are not regions of a state.
const (
	partControl      = "control"
	partReadings     = "readings"
	partAbort        = "abort" // counters of kernels that belong to no state
	partX            = "x"
	partIDs          = "topk_ids"
	partWeights      = "weights"
	partInputScale   = "input_scales"
	partBias         = "bias"
	partCast         = "x_cast" // tokens that the caller cast
	partCastScales   = "x_cast_scales"
	partOut          = ref.PartOut
	partScales       = ref.PartScales
	partRowOffsets   = ref.PartRowOffsets
	partExpertIDs    = ref.PartExpertIDs
	partSrcInfo      = ref.PartSrcInfo
	partScaleOffsets = ref.PartScaleOffsets
	partY            = "y"
	partCombined     = ref.PartCombined
	partFlush        = "flush"
	partWorld        = "world" // the table of hosts/transport.cuh
)

// flushBytes is how much cold mode writes on each GPU before a call: several times
// the L2 cache of any GPU.
const flushBytes = 256 << 20

// heap is the memory of one rank: the same parts at the same offsets on every
// rank, in one allocation.
type heap struct {
	parts  []Region
	offset map[string]int64
	bytes  int64
}

func newHeap(parts []Region) heap {
	h := heap{parts: parts, offset: map[string]int64{}}
	for _, p := range parts {
		h.offset[p.Name] = h.bytes
		h.bytes += (p.Bytes + regionAlign - 1) / regionAlign * regionAlign
	}
	return h
}

// readingWords is the room for time stamps and spans of a rank.
const readingWords = 1 << 17

// rigParts are what ranks need to align and to be timed.
func rigParts() []Region {
	return []Region{
		{partControl, 256, 0},
		{partAbort, 4, 0},
		{partReadings, 8 * readingWords, 0},
	}
}

// problemParts are the inputs and outputs of a problem.
func problemParts(p ep.Problem) []Region {
	tokens, hidden, topK := int64(p.MaxTokens), int64(p.Hidden), int64(p.TopK)
	parts := []Region{
		{partX, tokens * hidden * 2, 0},
		{partIDs, tokens * topK * 4, 0},
		{partWeights, tokens * topK * 4, 0},
		{partInputScale, max(4, tokens*int64(encodingOf(p).Scales)*4), 0},
		{partBias, hidden * 2, 0},
	}
	if p.Mode == ep.Cold {
		parts = append(parts, Region{partFlush, flushBytes, 0})
	}
	return append(parts, outputParts(p)...)
}

// castParts are tokens that the caller cast, where a kernel may take them.
func castParts(p ep.Problem) []Region {
	if !MayCast(p) {
		return nil
	}
	l := encodingOf(p)
	return []Region{
		{partCast, int64(p.MaxTokens) * int64(l.Payload), 0},
		{partCastScales, int64(p.MaxTokens) * int64(l.Scales*l.ScaleBytes), 0},
	}
}

// MayCast reports whether a dispatch of the problem may take tokens that its caller cast.
func MayCast(p ep.Problem) bool { return p.Dispatch == ep.FP8 && p.Layout.Kind() != "expert" }

// outputParts are what dispatch, experts and combine write. They are poisoned with
// ones: NaN in every float dtype, an impossible offset in an index. The fields of
// EpArgs mean, by layout:
//
//	               expert                 masked                     rank                   rank:packed
//	out            [max_rows]             [local, capacity]          [ranks, max_tokens]    [ranks * max_tokens]
//	out_scales fp8 [hidden/128, max_rows] [local, hidden/128, cap.]  [rows, hidden/128]     [rows, hidden/128]
//	row_offsets    first row of a group   rows of a group, of all    rows of a source       first row of a source
//	expert_ids     [groups]               [local, ranks] u64 ranges  [rows, topk] local     [rows, topk] local
//	src_info       [rows, 2] token, k     [rows, 2] token, k, then   [rows, 2] token, rank, then [max_tokens] for combine
//	                                      what combine needs
//	scale_offsets  nvfp4: [groups]        unused                     [rows, topk] weights   [rows, topk] weights
func outputParts(p ep.Problem) []Region {
	rows, groups, hidden := int64(dtype.MaxRows(p)), int64(dtype.Groups(p)), int64(p.Hidden)
	l := encodingOf(p)
	index := IndexOf(p)
	parts := []Region{
		{partOut, rows * int64(l.Payload), 0xff},
		{partScales, int64(dtype.OutputScaleBytes(l, int(groups), int(rows))), 0xff},
		{partRowOffsets, (groups + 1) * 4, 0xff},
		{partExpertIDs, index.ExpertIDs, 0xff},
		{partSrcInfo, index.SrcInfo, 0xff},
		{partScaleOffsets, index.ScaleOffsets, 0xff},
	}
	if p.Op != ep.Dispatch {
		parts = append(parts,
			Region{partY, rows * hidden * 2, 0xff},
			Region{partCombined, int64(p.MaxTokens*p.TopK) * hidden * 2, 0xff})
	}
	return parts
}

// Index is the bytes of the outputs that say what a row is.
type Index struct{ ExpertIDs, SrcInfo, ScaleOffsets int64 }

// IndexOf is that of a problem's layout. native/epcomm/src/pack.c counts the same.
func IndexOf(p ep.Problem) Index {
	rows, groups := int64(dtype.MaxRows(p)), int64(dtype.Groups(p))
	switch beside := rows * int64(p.TopK) * 4; p.Layout.Kind() {
	case "masked":
		route := int64(p.Ranks) * (int64(p.MaxTokens)*int64(1+p.TopK) + 1) * 4
		return Index{groups * int64(p.Ranks) * 8, rows*8 + route, groups * 4}
	case "rank":
		return Index{beside, rows*8 + int64(p.MaxTokens)*4, beside}
	}
	return Index{groups * 4, rows * 8, groups * 4}
}

// stateParts are the memory of a state: call numbers, counters and regions.
func stateParts(s state, p ep.Problem) []Region {
	parts := []Region{
		{s.part("rounds"), 8, 0},
		{s.part("counters"), int64(max(s.counters(p), 1)) * 4, 0},
	}
	for _, r := range s.regions(p) {
		r.Name = s.part(r.Name)
		parts = append(parts, r)
	}
	return parts
}

// opIndex is the place of an op's call number in a state.
func opIndex(op ep.Op) int64 {
	if op == ep.Combine {
		return 1
	}
	return 0
}
