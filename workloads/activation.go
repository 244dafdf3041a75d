package workloads

import (
	"math"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// Gates fills dst with one input row of the activation as BF16 bits: first the gate values, then the same number of
// `up` values. Most magnitudes lie in [2^-3, 2^5). One value in 1,024 lies in [128, 256), where the exponential of a
// float32 overflows.
func (w *Workload) Gates(rank, row int, dst []uint16) {
	base := mix(w.Seed ^ uint64(rank)<<40 ^ uint64(row) ^ 1<<63)
	for c := 0; c < len(dst); c += 4 {
		h := mix(base + uint64(c))
		for i := c; i < min(c+4, len(dst)); i++ {
			exponent := uint16(124 + h>>8&7)
			if mix(h)>>54 == 0 {
				exponent = 134
			}
			dst[i] = uint16(h)&0x807f | exponent<<7
			h = h>>16 | h<<48
		}
	}
}

// ActivationScale returns the NVFP4 input scale of a group of rows. Neighbouring groups have different scales.
func ActivationScale(group int) float32 { return float32(math.Ldexp(1, group%4-6)) }

// Received returns the number of rows that a rank receives.
func (w *Workload) Received(rank int) int {
	n, local := 0, int32(w.Problem.LocalExperts())
	count := func(_ int, e int32) {
		if int(e/local) == rank {
			n++
		}
	}
	for source := range w.Ranks {
		w.selections(source, count)
	}
	if w.Problem.SharedExpert {
		_, shared := w.SharedSlice(rank)
		n += shared
	}
	return n
}

// BytesActivation returns the bytes that an activation reads and writes on the rank with the most
// rows.
func (w *Workload) BytesActivation() int64 {
	p := w.Problem
	l := dtype.Of(p.Dispatch, p.Hidden)
	rows := 0
	for rank := range w.Ranks {
		rows = max(rows, w.Received(rank))
	}
	return int64(rows) * int64(4*p.Hidden+l.Payload+l.Scales*l.ScaleBytes)
}

// BytesMemory returns the bytes that an activation reads and writes in the busiest rank's memory. For any op except an
// activation, it returns 0.
func (w *Workload) BytesMemory(op ep.Op) int64 {
	if op == ep.Activation {
		return w.BytesActivation()
	}
	return 0
}
