// Package dtype defines how a token of each dtype is stored in messages and in the outputs of dispatch.
package dtype

import (
	"encoding/binary"

	"github.com/epbench/epbench/tune/ep"
)

// Align is the alignment of every part of a message in bytes.
const Align = 16

// ScaleBlockRows is the number of rows of a tile of NVFP4 scales. Each group's scales begin with a tile.
const ScaleBlockRows = 128

// Encoding says how one token of a dtype is stored.
type Encoding struct {
	DType      ep.DType
	Hidden     int
	Group      int // elements that share a scale, 0 for BF16
	Payload    int // bytes of the elements
	ScaleBytes int // bytes of one scale, 0 for BF16
	Scales     int
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

// ScaleOffset returns the offset of the scales in a message.
func (l Encoding) ScaleOffset() int { return up(l.Payload, Align) }

// TokenBytes returns the padded bytes of elements and scales.
func (l Encoding) TokenBytes() int {
	return up(l.Payload, Align) + up(l.Scales*l.ScaleBytes, Align)
}

// Code returns the bits of the element in column c.
func (l Encoding) Code(payload []byte, c int) int {
	switch l.DType {
	case ep.BF16:
		return int(binary.LittleEndian.Uint16(payload[2*c:]))
	case ep.FP8:
		return int(payload[c])
	}
	return int(payload[c/2]>>(c%2*4)) & 15
}

// Header describes the end of a dispatch message: the token's int32 index on its rank, then topK uint16 global
// expert ids, each padded to Align. A message for all experts of a rank also has topK float32 router weights.
// SrcInfo, IDs and Weights are offsets from the message's start.
type Header struct {
	SrcInfo, IDs int
	Weights      int // only in a message for all experts of a rank
	Bytes        int // size of a message for one expert
	Dedup        int // size of a message for all experts of a rank
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

// RowPad returns the multiple to which each group's rows are padded. FP8's 4 aligns its transposed scales to 16
// bytes.
func RowPad(p ep.Problem) int {
	switch {
	case p.Layout == ep.LayoutExpert128:
		return 128
	case p.Layout == ep.LayoutExpert && p.Dispatch == ep.FP8:
		return 4
	}
	return 1
}

// Groups returns a rank's number of row groups: one for each source rank or local expert, and one for a fused
// shared expert.
func Groups(p ep.Problem) int {
	if p.Layout.ByRank() {
		return p.Ranks
	}
	if p.SharedExpert {
		return p.LocalExperts() + 1
	}
	return p.LocalExperts()
}

// Sources returns the number of ranks whose tokens a rank receives. With SkipA2A every rank already has all
// tokens.
func Sources(p ep.Problem) int {
	if p.SkipA2A {
		return 1
	}
	return p.Ranks
}

// Capacity returns the fixed rows of each group, 0 if groups have no gaps.
func Capacity(p ep.Problem) int {
	switch p.Layout {
	case ep.LayoutMasked:
		return Sources(p) * p.MaxTokens
	case ep.LayoutRank:
		return p.MaxTokens
	}
	return 0
}

// MaxRows returns an upper bound of a rank's dispatch output in rows, with padding.
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

// FP8Scales returns the index of a row's first float32 scale and the stride to the next. The scales are
// [hidden/128, maxRows] by expert, [local experts, hidden/128, rows of an expert] masked, and [rows, hidden/128]
// by rank.
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

// OutputScaleBytes returns the bytes of a rank's scales: FP8 [hidden/128, maxRows] float32, MXFP4 [maxRows,
// hidden/32], NVFP4 [blocks, ceil(hidden/64), 32, 4, 4] with one spare block for every group.
func OutputScaleBytes(l Encoding, groups, maxRows int) int {
	if l.DType == ep.NVFP4 {
		blocks := (maxRows + groups*ScaleBlockRows) / ScaleBlockRows
		return blocks * ScaleBlockRows * up(l.Scales, 4)
	}
	return l.Scales * l.ScaleBytes * maxRows
}

func up(n, unit int) int { return (n + unit - 1) / unit * unit }
