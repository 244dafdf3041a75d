// Package dtype defines how a token of each dtype is stored in messages and in the outputs of
// dispatch. The oracle, every backend and all code that plans memory use its sizes. It
// converts no values.
package dtype

import (
	"encoding/binary"

	"github.com/epbench/epbench/tune/ep"
)

// Align is the alignment in bytes of every part of a message: one 128-bit vector.
const Align = 16

// ScaleBlockRows is the number of rows of one tile of NVFP4 scales. Each group's scales begin with a tile.
const ScaleBlockRows = 128

// Encoding says how one token of a dtype is stored.
type Encoding struct {
	DType      ep.DType
	Hidden     int // number of elements
	Group      int // number of elements that share a scale, 0 for BF16
	Payload    int // bytes of the elements
	ScaleBytes int // bytes of one scale, 0 for BF16
	Scales     int // number of scales
}

// Of returns the encoding of a token with hidden elements.
func Of(f ep.DType, hidden int) Encoding {
	l := Encoding{DType: f, Hidden: hidden}
	switch f {
	case ep.FP8:
		l.Group, l.Payload, l.ScaleBytes = 128, hidden, 4
	case ep.MXFP4:
		l.Group, l.Payload, l.ScaleBytes = 32, hidden/2, 1
	case ep.NVFP4:
		l.Group, l.Payload, l.ScaleBytes = 16, hidden/2, 1
	default:
		l.Payload = 2 * hidden
		return l
	}
	l.Scales = hidden / l.Group
	return l
}

// ScaleOffset returns the offset of the scales in a message: they follow the elements.
func (l Encoding) ScaleOffset() int { return up(l.Payload, Align) }

// TokenBytes returns the bytes of elements and scales in a message, each padded.
func (l Encoding) TokenBytes() int {
	return up(l.Payload, Align) + up(l.Scales*l.ScaleBytes, Align)
}

// Code returns the element in column c as an unsigned integer of 16, 8 or 4 bits.
func (l Encoding) Code(payload []byte, c int) int {
	switch l.DType {
	case ep.BF16:
		return int(binary.LittleEndian.Uint16(payload[2*c:]))
	case ep.FP8:
		return int(payload[c])
	}
	return int(payload[c/2]>>(c%2*4)) & 15
}

// Header describes the end of a dispatch message: the token's int32 index on its rank, then topK uint16
// global expert ids, each padded to Align. A masked position holds NoExpert. A message for all experts of a
// rank also has topK float32 router weights. SrcInfo, IDs and Weights are offsets from the message's start.
type Header struct {
	SrcInfo, IDs int
	Weights      int // only in a message for all experts of a rank
	Bytes        int // bytes of a message for one expert
	Dedup        int // bytes of a message for all experts of a rank
}

// NoExpert marks a masked top-k position in a message.
const NoExpert = 0xffff

// Message returns the layout of a dispatch message.
func (l Encoding) Message(topK int) Header {
	src := l.TokenBytes()
	ids := src + up(4, Align)
	bytes := ids + up(2*topK, Align)
	return Header{SrcInfo: src, IDs: ids, Weights: bytes, Bytes: bytes, Dedup: bytes + up(4*topK, Align)}
}

// RowPad returns the padding of groups: the output rounds up the number of rows of each group to a multiple of
// RowPad. With FP8 it is 4, so that the transposed scales begin at multiples of 16 bytes.
func RowPad(p ep.Problem) int {
	switch {
	case p.Layout == ep.LayoutExpert128:
		return 128
	case p.Layout == ep.LayoutExpert && p.Dispatch == ep.FP8:
		return 4
	}
	return 1
}

// Groups returns the number of row groups that a rank receives. In the layouts by rank there is one for
// each source rank, otherwise one for each local expert, and one before them for a fused shared expert.
func Groups(p ep.Problem) int {
	if p.Layout.ByRank() {
		return p.Ranks
	}
	if p.SharedExpert {
		return p.LocalExperts() + 1
	}
	return p.LocalExperts()
}

// Sources returns the number of ranks whose tokens a rank receives. With SkipA2A all ranks
// have all tokens, so a rank serves only itself.
func Sources(p ep.Problem) int {
	if p.SkipA2A {
		return 1
	}
	return p.Ranks
}

// Capacity returns the fixed number of rows of each group, 0 if groups follow each other
// without gaps.
func Capacity(p ep.Problem) int {
	switch p.Layout {
	case ep.LayoutMasked:
		return Sources(p) * p.MaxTokens
	case ep.LayoutRank:
		return p.MaxTokens
	}
	return 0
}

// MaxRows returns an upper bound of the rows of one rank's dispatch output, padding included.
func MaxRows(p ep.Problem) int {
	switch p.Layout.Kind() {
	case "masked":
		return p.LocalExperts() * Capacity(p)
	case "rank":
		return p.Ranks * p.MaxTokens
	}
	rows := p.MaxTokens * Sources(p) * min(p.LocalExperts(), p.TopK)
	if p.SharedExpert {
		rows += p.MaxTokens
	}
	rows += (RowPad(p) - 1) * Groups(p)
	return up(rows, RowPad(p))
}

// FP8Scale returns the index of scale g of a row, see FP8Scales.
func FP8Scale(p ep.Problem, maxRows, row, g int) int {
	first, stride := FP8Scales(p, maxRows, row)
	return first + g*stride
}

// FP8Scales returns the index of the first scale of a row among a rank's float32 scales, and the stride
// from one scale of the row to the next. The scales are [hidden/128, maxRows] in the layouts by expert,
// [local experts, hidden/128, rows of an expert] in layout masked, and [rows, hidden/128] in the layouts by
// rank.
func FP8Scales(p ep.Problem, maxRows, row int) (first, stride int) {
	groups, room := p.Hidden/128, Capacity(p)
	switch p.Layout.Kind() {
	case "rank":
		return row * groups, 1
	case "masked":
		return row/room*groups*room + row%room, room
	}
	return row, maxRows
}

// OutputScaleBytes returns the size of one rank's scale output for maxRows rows: FP8
// [hidden/128, maxRows] float32, MXFP4 [maxRows, hidden/32], NVFP4
// [blocks, ceil(hidden/64), 32, 4, 4], with one spare block for every group.
func OutputScaleBytes(l Encoding, groups, maxRows int) int {
	if l.DType == ep.NVFP4 {
		blocks := (maxRows + groups*ScaleBlockRows) / ScaleBlockRows
		return blocks * ScaleBlockRows * up(l.Scales, 4)
	}
	return l.Scales * l.ScaleBytes * maxRows
}

func up(n, unit int) int { return (n + unit - 1) / unit * unit }
