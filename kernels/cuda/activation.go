package cuda

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// activation is one of the fused activation kernels of native/kernels/silu.
// They take EpSiluArgs: input [rows, 2D] BF16, output [rows, D] in a dtype,
// scales as dispatch lays them out. Any grid, any block of whole warps.
type activation struct {
	entry  string
	source string
	dtype  ep.DType
	tile   int // D must be a multiple of it
	how    ref.Activation
}

// activations lists the activation kernels; a clamp is compiled in.
func activations() []activation {
	clamp := &ref.Clamp{Limit: 7, Alpha: 1.702}
	return []activation{
		{entry: "fused_silu", source: "silu/silu.cuh", dtype: ep.BF16, tile: 8},
		{entry: "fused_silu_fp8", source: "silu/silu.cuh", dtype: ep.FP8, tile: 128},
		{entry: "fused_silu_mxfp4", source: "silu/silu.cuh", dtype: ep.MXFP4, tile: 32},
		{entry: "fused_silu_mxfp4", source: "silu/silu.cuh", dtype: ep.MXFP4, tile: 32, how: ref.Activation{Clamp: clamp}},
		{entry: "fused_silu_nvfp4", source: "silu/nvfp4.cuh", dtype: ep.NVFP4, tile: 64},
		{entry: "fused_silu_nvfp4_interleaved", source: "silu/nvfp4.cuh", dtype: ep.NVFP4, tile: 64, how: ref.Activation{Interleaved: true}},
	}
}

func (a activation) name() string {
	if a.how.Clamp != nil {
		return a.entry + " clamped"
	}
	return a.entry
}

// defines are the -D options for D columns of output and a block of threads.
func (a activation) defines(columns, threads int) []string {
	return []string{define("EP_COLS", columns), define("EP_THREADS", threads), define("EP_CLAMP", bit(a.how.Clamp != nil))}
}

// activated is one call's memory, everything row-major as in EpSiluArgs.
type activated struct {
	columns      int       // D
	maxRows      int       // capacity of every buffer
	rowOffsets   []uint32  // [groups+1]
	scaleOffsets []uint32  // [groups], NVFP4
	inputScales  []float32 // [groups], NVFP4
	in           []uint16  // [maxRows, 2D]
	out          []byte    // [maxRows, payload of D columns]
	scales       []byte
	poison       byte // what out and scales held before
}

// newActivated lays out a call: rows of each group, inputs by value(row,
// column) and poisoned outputs.
func newActivated(a activation, columns, maxRows int, rows []int, value func(row, column int) float32) *activated {
	l := dtype.Of(a.dtype, columns)
	x := &activated{columns: columns, maxRows: maxRows, rowOffsets: []uint32{0}, in: make([]uint16, maxRows*2*columns),
		out: make([]byte, maxRows*l.Payload), scales: make([]byte, dtype.OutputScaleBytes(l, len(rows), maxRows)), poison: 0xa5}
	blocks := 0
	for g, n := range rows {
		start := x.rowOffsets[g]
		x.rowOffsets = append(x.rowOffsets, start+uint32(n))
		x.scaleOffsets = append(x.scaleOffsets, uint32(blocks)-start/dtype.ScaleBlockRows)
		x.inputScales = append(x.inputScales, 0.5*float32(g+1))
		blocks += (n + dtype.ScaleBlockRows - 1) / dtype.ScaleBlockRows
	}
	for i := range x.in {
		x.in[i] = ref.BF16(value(i/(2*columns), i%(2*columns)))
	}
	for _, b := range [][]byte{x.out, x.scales} {
		copy(b, bytes.Repeat([]byte{x.poison}, len(b)))
	}
	return x
}

// activationValues are normally distributed and cut at 4; a few are far beyond the
// clamp, where exp overflows.
func activationValues(seed uint64) func(row, column int) float32 {
	rng := rand.New(rand.NewPCG(seed, 2))
	return func(row, _ int) float32 {
		if row%7 == 3 && rng.IntN(20) == 0 {
			return float32(rng.NormFloat64() * 100)
		}
		return float32(math.Max(-4, math.Min(4, rng.NormFloat64()*2)))
	}
}

// check compares a call's outputs with the oracle. Scales that are powers of two
// must be equal, others within one part in a million. Elements may be two BF16
// codes off, or one code of a smaller dtype, but nearly all must be equal. Rows
// beyond the last offset must be untouched.
func (x *activated) check(a activation) error {
	l := dtype.Of(a.dtype, x.columns)
	tally := activationTally{}
	last := 0
	for g := range x.inputScales {
		first := int(x.rowOffsets[g]/dtype.ScaleBlockRows + x.scaleOffsets[g])
		start, end := int(x.rowOffsets[g]), int(x.rowOffsets[g+1])
		for row := start; row < end; row++ {
			z := ref.Narrow(a.how.Row(x.in[row*2*x.columns : (row+1)*2*x.columns]))
			want := ref.Quantize(a.dtype, z, x.inputScales[g])
			got := ref.Row{Payload: x.out[row*l.Payload : (row+1)*l.Payload], Scales: ref.ScalesOf(l, x.scales, row, row-start, first, x.maxRows)}
			if err := tally.row(l, want, got); err != nil {
				return fmt.Errorf("group %d row %d: %w", g, row, err)
			}
		}
		if err := x.checkPadding(l, g, end-start, first); err != nil {
			return err
		}
		last = end
	}
	for i := last * l.Payload; i < len(x.out); i++ {
		if x.out[i] != x.poison {
			return fmt.Errorf("byte %d of row %d, behind the last, was written", i%l.Payload, i/l.Payload)
		}
	}
	return tally.result()
}

// checkPadding wants zeros in the scales behind the last row of a group's
// last block of 128 (NVFP4 only).
func (x *activated) checkPadding(l dtype.Encoding, group, rows, first int) error {
	if l.DType != ep.NVFP4 {
		return nil
	}
	for i := rows; i%dtype.ScaleBlockRows != 0; i++ {
		if s := ref.ScalesOf(l, x.scales, 0, i, first, x.maxRows); !bytes.Equal(s, make([]byte, len(s))) {
			return fmt.Errorf("group %d: scales of padding row %d are % x, want zeros", group, i, s)
		}
	}
	return nil
}

// activationTally counts values, and those that are near but not equal.
type activationTally struct{ values, off int }

func (t *activationTally) row(l dtype.Encoding, want, got ref.Row) error {
	for i := 0; i < len(want.Scales); i += max(1, l.ScaleBytes) {
		if !nearScale(l.DType, want.Scales[i:], got.Scales[i:]) {
			return fmt.Errorf("scale %d is % x, want % x", i/l.ScaleBytes, got.Scales[i:i+l.ScaleBytes], want.Scales[i:i+l.ScaleBytes])
		}
	}
	for c := range l.Hidden {
		w, g := codeAt(l, want.Payload, c), codeAt(l, got.Payload, c)
		t.values++
		d := max(w-g, g-w)
		if l.DType == ep.BF16 && max(w, -w) < vanishing && max(g, -g) < vanishing {
			d = 0
		}
		if d > 0 {
			t.off++
		}
		if allowed := map[ep.DType]int{ep.BF16: 2}[l.DType]; d > max(allowed, 1) {
			return fmt.Errorf("column %d has code %d, want %d", c, g, w)
		}
	}
	return nil
}

// vanishing is the BF16 code of 2^-110. Below it exp(-g) overflows single
// precision, and the gate becomes zero.
const vanishing = (127 - 110) << 7

// result asks for 999 of 1000 values to be equal to the last bit: the
// device's exponential may be a unit off, which seldom shows after rounding.
func (t *activationTally) result() error {
	if t.values == 0 {
		return fmt.Errorf("nothing was compared")
	}
	if t.off*1000 > t.values {
		return fmt.Errorf("%d of %d values differ by a code, more than 1 in 1000", t.off, t.values)
	}
	return nil
}

func nearScale(f ep.DType, want, got []byte) bool {
	switch f {
	case ep.FP8:
		w := float64(math.Float32frombits(binary.LittleEndian.Uint32(want)))
		g := float64(math.Float32frombits(binary.LittleEndian.Uint32(got)))
		return math.Abs(w-g) <= 1e-6*w
	case ep.NVFP4:
		return max(want[0], got[0])-min(want[0], got[0]) <= 1
	}
	return want[0] == got[0]
}

// codeAt is the element in column c as an integer that counts codes: the sign
// moves it below zero.
func codeAt(l dtype.Encoding, payload []byte, c int) int {
	code, sign := l.Code(payload, c), map[ep.DType]int{ep.BF16: 0x8000, ep.FP8: 0x80}[l.DType]
	if sign = max(sign, 8); code&sign != 0 {
		return -(code &^ sign)
	}
	return code
}
