package ref

import (
	"encoding/binary"
	"math"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// Row is one token, little-endian. 4-bit element 2i is in the low half of byte i.
type Row struct {
	Payload []byte
	Scales  []byte
}

// Quantize converts one token from float32. `global` is the input scale of NVFP4. Other dtypes ignore it.
func Quantize(f ep.DType, x []float32, global float32) Row {
	l := dtype.Of(f, len(x))
	row := Row{make([]byte, l.Payload), make([]byte, l.Scales*l.ScaleBytes)}
	if f == ep.BF16 {
		for i, v := range x {
			binary.LittleEndian.PutUint16(row.Payload[2*i:], BF16(v))
		}
		return row
	}
	for g := range l.Scales {
		group := x[g*l.Group : (g+1)*l.Group]
		switch f {
		case ep.FP8:
			quantizeFP8(group, row, g)
		case ep.MXFP4:
			quantizeMXFP4(group, row, g)
		case ep.NVFP4:
			quantizeNVFP4(group, row, g, global)
		}
	}
	return row
}

// quantizeFP8 computes s = max(amax, 1e-4)/448 and q = e4m3(x/s). DeepEP has the same 1e-4.
func quantizeFP8(x []float32, row Row, g int) {
	s := max(amax(x), 1e-4) / maxE4M3
	binary.LittleEndian.PutUint32(row.Scales[4*g:], math.Float32bits(s))
	for i, v := range x {
		row.Payload[g*len(x)+i] = E4M3(v / s)
	}
}

// castSlack exceeds the relative difference of x/s between two libraries' FP8 casts, which is at most 3 * 2^-24. DeepEP
// computes x/s as x * (448/amax). PyTorch computes s as amax * (1/448).
const castSlack = 1. / (1 << 21)

// otherCast returns `row`, but each value in the middle between two codes is rounded to the other code.
func otherCast(x []float32, row Row) Row {
	other := Row{make([]byte, len(row.Payload)), row.Scales}
	group := len(x) / (len(row.Scales) / 4)
	for i, v := range x {
		q := v / factor(ep.FP8, row.Scales[i/group*4:], 1)
		other.Payload[i] = E4M3(q * (1 - castSlack))
		if other.Payload[i] == row.Payload[i] {
			other.Payload[i] = E4M3(q * (1 + castSlack))
		}
	}
	return other
}

func quantizeMXFP4(x []float32, row Row, g int) {
	row.Scales[g] = EvenE8M0(amax(x))
	s := E8M0ToFloat(row.Scales[g])
	for i, v := range x {
		putE2M1(row.Payload, g*len(x)+i, E2M1(v/s))
	}
}

// quantizeNVFP4 computes s = e4m3(global * (amax * 1/6)), clamped to 448, and q = e2m1(x * 1/(s * 1/global)). A
// zero scale makes the group zero.
func quantizeNVFP4(x []float32, row Row, g int, global float32) {
	row.Scales[g] = E4M3(global * (amax(x) * (1. / 6)))
	var inverse float32
	if s := E4M3ToFloat(row.Scales[g]); s != 0 {
		inverse = 1 / (s * (1 / global))
	}
	for i, v := range x {
		putE2M1(row.Payload, g*len(x)+i, E2M1(v*inverse))
	}
}

func putE2M1(payload []byte, i int, code byte) { payload[i/2] |= code << (i % 2 * 4) }

func amax(x []float32) float32 {
	var m float32
	for _, v := range x {
		m = max(m, float32(math.Abs(float64(v))))
	}
	return m
}

// Dequantize converts a token of hidden elements back to float32.
func Dequantize(f ep.DType, row Row, hidden int, global float32) []float32 {
	out := make([]float32, hidden)
	l := dtype.Of(f, hidden)
	if f == ep.BF16 {
		for i := range out {
			out[i] = BF16ToFloat(binary.LittleEndian.Uint16(row.Payload[2*i:]))
		}
		return out
	}
	for g := range l.Scales {
		s := factor(f, row.Scales[g*l.ScaleBytes:], global)
		for i := g * l.Group; i < (g+1)*l.Group; i++ {
			if f == ep.FP8 {
				out[i] = E4M3ToFloat(row.Payload[i]) * s
			} else {
				out[i] = E2M1ToFloat(row.Payload[i/2]>>(i%2*4)) * s
			}
		}
	}
	return out
}

// factor decodes the scale at the beginning of b.
func factor(f ep.DType, b []byte, global float32) float32 {
	switch f {
	case ep.FP8:
		return math.Float32frombits(binary.LittleEndian.Uint32(b))
	case ep.MXFP4:
		return E8M0ToFloat(b[0])
	}
	return E4M3ToFloat(b[0]) * (1 / global)
}

// ScaleAt returns the byte offset of scale g of a row. firstBlock is the group's first block of 128 rows. FP8 scales
// are stored as [scale, row], MXFP4 scales as [row, scale], and NVFP4 scales as
// [row/128][scale/4][row%32][row%128/32][scale%4].
func ScaleAt(l dtype.Encoding, g, row, inGroup, firstBlock, maxRows int) int {
	switch l.DType {
	case ep.FP8:
		return (g*maxRows + row) * l.ScaleBytes
	case ep.MXFP4:
		return row*l.Scales + g
	}
	columns := (l.Scales + 3) / 4
	block := firstBlock + inGroup/dtype.ScaleBlockRows
	r := inGroup % dtype.ScaleBlockRows
	return (((block*columns+g/4)*32+r%32)*4+r/32)*4 + g%4
}

// ScalesOf returns a row's scales, nil if the output is too short. See ScaleAt.
func ScalesOf(l dtype.Encoding, scales []byte, row, inGroup, firstBlock, maxRows int) []byte {
	out := make([]byte, 0, l.Scales*l.ScaleBytes)
	for g := range l.Scales {
		at := ScaleAt(l, g, row, inGroup, firstBlock, maxRows)
		if at+l.ScaleBytes > len(scales) {
			return nil
		}
		out = append(out, scales[at:at+l.ScaleBytes]...)
	}
	return out
}
