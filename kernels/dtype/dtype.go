// Package dtype says how a token of each dtype is stored, in messages and in the
// outputs of dispatch. The oracle, every backend and whoever plans memory read
// the sizes here. It converts no values.
package dtype

import (
	"encoding/binary"

	"github.com/epbench/epbench/tune/ep"
)

// Align is the alignment in bytes of every part of a message: one 128-bit
// vector.
const Align = 16

// ScaleBlockRows is the height of one tile of NVFP4's five-dimensional scale
// layout; each group's scales start on such a tile.
const ScaleBlockRows = 128

// Encoding is how one token of a dtype is stored.
type Encoding struct {
	DType      ep.DType
	Hidden     int // elements
	Group      int // elements that share a scale, 0 for BF16
	Payload    int // bytes of the elements
	ScaleBytes int // bytes of one scale, 0 for BF16
	Scales     int // scales
}

// Of lays out one token of hidden elements.
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

// ScaleOffset is where the scales start in a message: behind the elements.
func (l Encoding) ScaleOffset() int { return up(l.Payload, Align) }

// TokenBytes is the part of a message that depends on the dtype: elements
// and scales, each padded.
func (l Encoding) TokenBytes() int {
	return up(l.Payload, Align) + up(l.Scales*l.ScaleBytes, Align)
}

// Code is the element in column c as an unsigned integer: 16, 8 or 4 bits.
func (l Encoding) Code(payload []byte, c int) int {
	switch l.DType {
	case ep.BF16:
		return int(binary.LittleEndian.Uint16(payload[2*c:]))
	case ep.FP8:
		return int(payload[c])
	}
	return int(payload[c/2]>>(c%2*4)) & 15
}

// Header is the tail of a dispatch message: the int32 index of the token on
// its rank, then topK uint16 global expert ids, each part padded. A masked
// position holds NoExpert. A message for all experts of a rank goes on with topK
// float32 router weights. SrcInfo and IDs are offsets from the message's start.
type Header struct {
	SrcInfo, IDs int
	Weights      int // offset in a message for a rank
	Bytes        int // of a message for one expert
	Dedup        int // bytes of a message for a rank
}

// NoExpert marks a masked top-k position in a message.
const NoExpert = 0xffff

// Message is the layout of a dispatch message.
func (l Encoding) Message(topK int) Header {
	src := l.TokenBytes()
	ids := src + up(4, Align)
	bytes := ids + up(2*topK, Align)
	return Header{SrcInfo: src, IDs: ids, Weights: bytes, Bytes: bytes, Dedup: bytes + up(4*topK, Align)}
}

// RowPad is the number of rows that every group of the ragged output is
// rounded up to: FP8 keeps its transposed scales on 16-byte boundaries.
func RowPad(p ep.Problem) int {
	switch {
	case p.Layout == ep.LayoutExpert128:
		return 128
	case p.Layout == ep.LayoutExpert && p.Dispatch == ep.FP8:
		return 4
	}
	return 1
}

// Groups is the number of row groups a rank receives: one a local expert,
// and one before them for a fused shared expert; by rank, one a source rank.
func Groups(p ep.Problem) int {
	if p.Layout.ByRank() {
		return p.Ranks
	}
	if p.SharedExpert {
		return p.LocalExperts() + 1
	}
	return p.LocalExperts()
}

// Sources is the number of ranks whose tokens a rank receives: with SkipA2A they are
// replicated, and a rank serves itself alone.
func Sources(p ep.Problem) int {
	if p.SkipA2A {
		return 1
	}
	return p.Ranks
}

// Capacity is the number of rows that each group has a place for, 0 where groups
// follow each other without gaps.
func Capacity(p ep.Problem) int {
	switch p.Layout {
	case ep.LayoutMasked:
		return Sources(p) * p.MaxTokens
	case ep.LayoutRank:
		return p.MaxTokens
	}
	return 0
}

// MaxRows bounds the rows of one rank's dispatch output, padding included.
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

// FP8Scale is the place of scale g of a row, see FP8Scales.
func FP8Scale(p ep.Problem, maxRows, row, g int) int {
	first, stride := FP8Scales(p, maxRows, row)
	return first + g*stride
}

// FP8Scales is where the scales of a row lie among a rank's float32 scales: the place of
// the first, and how far apart they are. They lie as [hidden/128, maxRows], in layout
// masked as [local experts, hidden/128, rows of an expert], by rank as [rows, hidden/128].
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

// OutputScaleBytes is the size of one rank's scale output for maxRows rows:
// FP8 [hidden/128, maxRows] float32, MXFP4 [maxRows, hidden/32], NVFP4
// [blocks, ceil(hidden/64), 32, 4, 4] where every group may waste a block.
func OutputScaleBytes(l Encoding, groups, maxRows int) int {
	if l.DType == ep.NVFP4 {
		blocks := (maxRows + groups*ScaleBlockRows) / ScaleBlockRows
		return blocks * ScaleBlockRows * up(l.Scales, 4)
	}
	return l.Scales * l.ScaleBytes * maxRows
}

func up(n, unit int) int { return (n + unit - 1) / unit * unit }
