package workloads

import (
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// MessageKind says whether a message carries a token for one expert or several.
type MessageKind string

const (
	Direct MessageKind = "direct" // one token for one selected expert
	Dedup  MessageKind = "dedup"  // one token for all of its experts on one rank
)

// Matrix holds a number for each source rank (row) and destination rank (column).
type Matrix [][]int64

// Messages returns the number of messages of a dispatch, [source rank, destination rank]. The
// diagonal counts messages within a rank. Combine sends the transposed matrix.
func (w *Workload) Messages(kind MessageKind) Matrix {
	n := w.Problem.Ranks
	local := int32(w.Problem.LocalExperts())
	m := make(Matrix, n)
	for src := range m {
		row := make([]int64, n)
		last := make([]int, n) // [rank] last token sent, plus 1
		w.selections(src, func(t int, e int32) {
			dst := e / local
			if kind == Dedup && last[dst] == t+1 {
				return
			}
			last[dst] = t + 1
			row[dst]++
		})
		m[src] = row
	}
	return m
}

// Bytes multiplies each count by the bytes of one message.
func (m Matrix) Bytes(message int) Matrix {
	out := make(Matrix, len(m))
	for i, row := range m {
		out[i] = make([]int64, len(row))
		for j, n := range row {
			out[i][j] = n * int64(message)
		}
	}
	return out
}

// Busiest returns the largest number that any rank sends to, or receives from, the other ranks.
func (m Matrix) Busiest() int64 {
	var most int64
	for r := range m {
		var out, in int64
		for o := range m {
			if o != r {
				out += m[r][o]
				in += m[o][r]
			}
		}
		most = max(most, out, in)
	}
	return most
}

// MessageBytes returns the bytes of a dispatch message. The layout is that of ep_comm in Modular's MAX.
func MessageBytes(d ep.DType, hidden, topK int) int { return dtype.Of(d, hidden).Message(topK).Bytes }

// CombineBytes returns the bytes of a combine message: one BF16 row.
func CombineBytes(hidden int) int { return 2 * hidden }

// BytesDispatch returns the bytes of a dispatch on the busiest rank's link.
func (w *Workload) BytesDispatch(kind MessageKind) int64 {
	p := w.Problem
	return w.Messages(kind).Bytes(MessageBytes(p.Dispatch, p.Hidden, p.TopK)).Busiest()
}

// BytesCombine returns the bytes of a combine on the busiest rank's link.
func (w *Workload) BytesCombine(kind MessageKind) int64 {
	return w.Messages(kind).Bytes(CombineBytes(w.Problem.Hidden)).Busiest()
}

// BytesOp returns BytesDispatch, BytesCombine, their sum for a pair, and 0 for an activation.
func (w *Workload) BytesOp(op ep.Op, kind MessageKind) int64 {
	switch op {
	case ep.Dispatch:
		return w.BytesDispatch(kind)
	case ep.Combine:
		return w.BytesCombine(kind)
	case ep.Activation:
		return 0
	}
	return w.BytesDispatch(kind) + w.BytesCombine(kind)
}

// WireLimit returns the seconds that a link needs for `bytes` bytes in one direction. Its speed is `gbs` gigabytes
// (1e9 bytes) per second.
func WireLimit(bytes int64, gbs float64) float64 { return float64(bytes) / (gbs * 1e9) }
