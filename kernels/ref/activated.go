package ref

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Activated is the output of an activation on one rank.
type Activated struct {
	MaxRows int                  // capacity of the scale output in rows
	Payload func(row int) []byte // returns one row; safe for several goroutines
	Scales  []byte               // nil for BF16
	Beyond  []byte               // unused rows after the last row
	Poison  byte                 // value of each byte of Beyond before the call
}

// ActivationPicks returns the rows that CheckActivation compares, ascending. A limit of 0 means all rows.
func (o *Oracle) ActivationPicks(rank, limit int) []int {
	d := o.Dispatch(rank)
	pick, n := picker(d.rows(), limit), 0
	var out []int
	for g, group := range d.Groups {
		for i := range group.Rows() {
			if pick(n) {
				out = append(out, d.First[g]+i)
			}
			n++
		}
	}
	return out
}

// CheckActivation compares a rank's output of an activation with the oracle. The rounding of exp may differ, so:
//   - BF16 values may differ by two codes, elements of other dtypes by one code;
//   - FP8 scales and the values of MXFP4 rows may differ by one part in a million;
//   - NVFP4 scales may differ by one code;
//   - mostOff bounds the number of differences.
//
// Scales of padding rows must be zero for NVFP4. Rows after the last row must be unchanged.
func (o *Oracle) CheckActivation(rank int, got Activated, how Activation, limit int) kernels.Comparison {
	d, l := o.Dispatch(rank), o.Encoding()
	picked := o.ActivationPicks(rank, limit)
	findings, off := make([]finding, len(picked)), make([]int, len(picked))
	parallel(len(picked), func(i int) { findings[i], off[i] = o.checkActivated(rank, picked[i], got, how) })
	j, sum := &judge{rank: rank}, 0
	for i, f := range findings {
		j.Rows++
		f.place = picked[i]
		j.finding(f)
		sum += off[i]
	}
	j.place = d.End
	if n := len(picked) * l.Hidden; sum > mostOff(n) {
		j.wrong("%d of %d values differ by a code, at most %d may", sum, n, mostOff(n))
	}
	o.checkScalePadding(j, d, got)
	for i, b := range got.Beyond {
		if b != got.Poison {
			j.wrong("byte %d of row %d, after the last row, was written", i%l.Payload, d.End+i/l.Payload)
			break
		}
	}
	return j.result()
}

// mostOff returns how many of n values may differ: 1 in 1,000, plus three standard deviations.
func mostOff(n int) int {
	mean := float64(n) / 1000
	return int(mean + 3*math.Sqrt(mean))
}

func (o *Oracle) checkActivated(rank, row int, got Activated, how Activation) (f finding, off int) {
	d, l := o.Dispatch(rank), o.Encoding()
	g := groupOf(d, row)
	have := Row{Payload: got.Payload(row)}
	if l.Group > 0 {
		have.Scales = ScalesOf(l, got.Scales, row, row-d.First[g], scaleBlock(d, g), got.MaxRows)
	}
	if len(have.Payload) != l.Payload || len(have.Scales) != l.Scales*l.ScaleBytes {
		f.wrong = fmt.Sprintf("row %d is cut short", row)
		return f, 0
	}
	in := make([]uint16, 2*l.Hidden)
	o.w.Gates(rank, row, in)
	z := how.Row(in)
	for i, nudge := range acceptedFactors(l.DType) {
		want := Quantize(l.DType, Narrow(scaledBy(z, nudge)), workloads.ActivationScale(g))
		wrong, n := nearRow(l, want, have)
		if wrong == "" {
			f.maxErr = activatedError(l, z, have, g)
			return finding{maxErr: f.maxErr}, n
		}
		if i == 0 {
			f.wrong = fmt.Sprintf("row %d (group %d): %s", row, g, wrong)
		}
	}
	f.maxErr = activatedError(l, z, have, g)
	return f, 0
}

// acceptedFactors returns factors by which correct rows may be scaled. A difference in the last bit of a value
// can double an MXFP4 scale.
func acceptedFactors(t ep.DType) []float64 {
	if t == ep.MXFP4 {
		return []float64{1, 1 + 1e-6, 1 - 1e-6}
	}
	return []float64{1}
}

func scaledBy(z []float64, by float64) []float64 {
	if by == 1 {
		return z
	}
	out := make([]float64, len(z))
	for i, v := range z {
		out[i] = v * by
	}
	return out
}

func groupOf(d Delivery, row int) int {
	g := 0
	for g+1 < len(d.Groups) && int(d.RowOffsets[g+1]) <= row {
		g++
	}
	return g
}

// scaleBlock returns a group's first block of scales.
func scaleBlock(d Delivery, g int) int {
	return int(d.RowOffsets[g]/dtype.ScaleBlockRows + d.ScaleOffsets[g])
}

// nearRow describes the first value that differs too much, or returns "". `off` is the number of values that differ.
func nearRow(l dtype.Encoding, want, got Row) (wrong string, off int) {
	for g, n := 0, l.ScaleBytes; g < l.Scales; g++ {
		if a, b := want.Scales[g*n:g*n+n], got.Scales[g*n:g*n+n]; !nearScale(l.DType, a, b) {
			return fmt.Sprintf("scale %d: want %x, got %x", g, a, b), 0
		}
	}
	allowed := 1
	if l.DType == ep.BF16 {
		allowed = 2
	}
	for c := range l.Hidden {
		w, g := signedCode(l, want.Payload, c), signedCode(l, got.Payload, c)
		if l.DType == ep.BF16 && max(w, -w, g, -g) < vanishing {
			continue
		}
		if w != g {
			off++
		}
		if max(w-g, g-w) > allowed {
			return fmt.Sprintf("column %d: want code %d, got %d", c, w, g), off
		}
	}
	return "", off
}

// vanishing is the BF16 code of 2^-110. Smaller outputs are not compared: exp(-gate) may overflow on the device.
const vanishing = (127 - 110) << 7

func nearScale(t ep.DType, want, got []byte) bool {
	switch t {
	case ep.FP8:
		w := float64(math.Float32frombits(binary.LittleEndian.Uint32(want)))
		g := float64(math.Float32frombits(binary.LittleEndian.Uint32(got)))
		return math.Abs(w-g) <= 1e-6*w
	case ep.NVFP4:
		return max(want[0], got[0])-min(want[0], got[0]) <= 1
	}
	return want[0] == got[0]
}

func signedCode(l dtype.Encoding, payload []byte, c int) int {
	code, sign := l.Code(payload, c), 8
	switch l.DType {
	case ep.BF16:
		sign = 0x8000
	case ep.FP8:
		sign = 0x80
	}
	if code&sign != 0 {
		return -(code &^ sign)
	}
	return code
}

func activatedError(l dtype.Encoding, z []float64, got Row, group int) float64 {
	var worst, largest float64
	for i, v := range Dequantize(l.DType, got, l.Hidden, workloads.ActivationScale(group)) {
		worst = max(worst, math.Abs(float64(v)-z[i]))
		largest = max(largest, math.Abs(z[i]))
	}
	return relative(worst, largest)
}

func (o *Oracle) checkScalePadding(j *judge, d Delivery, got Activated) {
	l := o.Encoding()
	if l.DType != ep.NVFP4 {
		return
	}
	for g, group := range d.Groups {
		for i := group.Rows(); i%dtype.ScaleBlockRows != 0; i++ {
			if s := ScalesOf(l, got.Scales, 0, i, scaleBlock(d, g), got.MaxRows); !bytes.Equal(s, make([]byte, len(s))) {
				j.wrong("group %d: scales of padding row %d are % x, want zeros", g, i, s)
				return
			}
		}
	}
}
