// Package dtype defines how tokens of each data type are stored in messages between ranks (GPUs), and in the output of
// dispatch. Dispatch sends each token to the ranks of its experts.
package dtype

import (
	"encoding/binary"

	"github.com/epbench/epbench/tune/ep"
)

// Align is the alignment of every part of a message, in bytes.
const Align = 16

// ScaleBlockRows is the number of rows in one tile of NVFP4 scales.
const ScaleBlockRows = 128

// Encoding says how one token is stored.
type Encoding struct {
	DType      ep.DType
	Hidden     int // elements of a token
	Group      int // elements with one scale; 0 for BF16
	Payload    int // bytes of all elements
	ScaleBytes int // bytes of one scale
	Scales     int // number of scales
}

// Of returns the encoding of a token that has `hidden` elements of type f.
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

// ScaleOffset returns the offset in bytes of the scales in a message.
func (l Encoding) ScaleOffset() int { return up(l.Payload, Align) }

// TokenBytes returns the bytes of a token in a message, with padding.
func (l Encoding) TokenBytes() int {
	return up(l.Payload, Align) + up(l.Scales*l.ScaleBytes, Align)
}

// Code returns the stored bits of element c of a token.
func (l Encoding) Code(payload []byte, c int) int {
	switch l.DType {
	case ep.BF16:
		return int(binary.LittleEndian.Uint16(payload[2*c:]))
	case ep.FP8:
		return int(payload[c])
	}
	return int(payload[c/2]>>(c%2*4)) & 15
}

// Header holds offsets of what follows the token in a dispatch message, in bytes from the start of the message. A
// message is for one expert, or for all selected experts of a rank.
type Header struct {
	// SrcInfo is the offset of the token's index on its own rank, int32. IDs is the offset of the ids of its topK
	// experts, uint16.
	SrcInfo, IDs int
	Weights      int // topK weights, float32; only in Dedup messages
	Bytes        int // size of a message for one expert
	Dedup        int // size of a message for all experts
}

// NoExpert fills the ids of a token that selects fewer than topK experts.
const NoExpert = 0xffff

// Message returns the offsets in a dispatch message.
func (l Encoding) Message(topK int) Header {
	src := l.TokenBytes()
	ids := src + up(4, Align)
	bytes := ids + up(2*topK, Align)
	return Header{SrcInfo: src, IDs: ids, Weights: bytes, Bytes: bytes, Dedup: bytes + up(4*topK, Align)}
}

// RowPad returns the multiple to which the rows of a group are padded. In FP8, columns of 4-byte scales must begin at
// multiples of 16 bytes.
func RowPad(p ep.Problem) int {
	switch {
	case p.Layout == ep.LayoutExpert128:
		return 128
	case p.Layout == ep.LayoutExpert && p.Dispatch == ep.FP8:
		return 4
	}
	return 1
}

// Groups returns the number of row groups in the dispatch output of one rank. In layouts by rank, a group holds the
// rows from one source rank. In other layouts, it holds the rows for one expert.
func Groups(p ep.Problem) int {
	if p.Layout.ByRank() {
		return p.Ranks
	}
	if p.SharedExpert {
		return p.LocalExperts() + 1
	}
	return p.LocalExperts()
}

// Sources returns the number of ranks whose tokens a rank handles.
func Sources(p ep.Problem) int {
	if p.SkipA2A {
		return 1
	}
	return p.Ranks
}

// Capacity returns the number of rows that each group reserves, or 0 if groups reserve no rows.
func Capacity(p ep.Problem) int {
	switch p.Layout {
	case ep.LayoutMasked:
		return Sources(p) * p.MaxTokens
	case ep.LayoutRank:
		return p.MaxTokens
	}
	return 0
}

// MaxRows returns the largest number of rows in the dispatch output of a rank, with padding.
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

// FP8Scale returns the index of scale g of a row in the array of FP8 scales.
func FP8Scale(p ep.Problem, maxRows, row, g int) int {
	first, stride := FP8Scales(p, maxRows, row)
	return first + g*stride
}

// FP8Scales returns the index of a row's first scale in the float32 array of scales, and the distance from scale to
// scale. The array has these shapes:
//
//	expert  [hidden/128, maxRows]
//	masked  [experts of the rank, hidden/128, rows of an expert]
//	rank    [rows, hidden/128]
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

// OutputScaleBytes returns the bytes of the scales in the dispatch output of a rank:
//
//	FP8    [hidden/128, maxRows] float32
//	MXFP4  [maxRows, hidden/32] bytes
//	NVFP4  [tiles, ceil(hidden/64), 32, 4, 4] bytes; each group has a spare tile
func OutputScaleBytes(l Encoding, groups, maxRows int) int {
	if l.DType == ep.NVFP4 {
		blocks := (maxRows + groups*ScaleBlockRows) / ScaleBlockRows
		return blocks * ScaleBlockRows * up(l.Scales, 4)
	}
	return l.Scales * l.ScaleBytes * maxRows
}

func up(n, unit int) int { return (n + unit - 1) / unit * unit }
