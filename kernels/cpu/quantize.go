package cpu

import (
	"encoding/binary"
	"math"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// inputScale is the global scale of NVFP4.
const inputScale = 1

func quantize(l dtype.Encoding, x []uint16, payload, scales []byte) {
	for g := range l.Scales {
		group := x[g*l.Group : (g+1)*l.Group]
		out := payload[g*l.Group*l.Payload/l.Hidden:]
		m := math.Float32frombits(uint32(largest(group)) << 16)
		switch l.DType {
		case ep.FP8:
			s := max(m, 1e-4) / 448
			binary.LittleEndian.PutUint32(scales[4*g:], math.Float32bits(s))
			for i, b := range group {
				out[i] = e4m3(widen(b) / s)
			}
		case ep.MXFP4:
			scales[g] = evenScale(m)
			pack(out, group, exponent(254-int(scales[g])))
		case ep.NVFP4:
			scales[g] = e4m3(inputScale * (m * (1. / 6)))
			pack(out, group, reciprocal(scales[g]))
		}
	}
}

func largest(group []uint16) uint16 {
	var m uint16
	for _, b := range group {
		m = max(m, b&0x7fff)
	}
	return m
}

// evenScale returns the e8m0 scale of a group with maximum m. It rounds m to one bit of mantissa; the scale is the
// exponent of the result, minus 2.
func evenScale(m float32) byte {
	e := int((math.Float32bits(m)+1<<21)>>23&0xff) - 2
	return byte(min(max(e, 0), 254))
}

// exponent returns 2^(e-127).
func exponent(e int) float32 {
	if e <= 0 {
		return math.Float32frombits(1 << 22)
	}
	return math.Float32frombits(uint32(e) << 23)
}

func reciprocal(scale byte) float32 {
	if scale == 0 {
		return 0
	}
	return 1 / (fromE4M3(scale) * (1 / float32(inputScale)))
}

// pack multiplies a group by `factor` and rounds it to e2m1, two values a byte.
func pack(out []byte, group []uint16, factor float32) {
	for i := 0; i < len(group); i += 2 {
		out[i/2] = e2m1(widen(group[i])*factor) | e2m1(widen(group[i+1])*factor)<<4
	}
}

func e4m3(x float32) byte {
	b := math.Float32bits(x)
	sign := byte(b >> 24 & 0x80)
	a := b & 0x7fffffff
	switch {
	case a > 0x7f800000:
		return 0x7f
	case a >= 0x43e00000: // 448
		return sign | 0x7e
	case a < 0x3c800000: // 2^-6
		const magic = 1 << 14 // adding it rounds to multiples of 2^-9
		return sign | byte(math.Float32bits(math.Float32frombits(a)+magic))
	}
	a += 0x7ffff + a>>20&1
	return sign | byte(a>>20-120<<3)
}

func fromE4M3(b byte) float32 { return e4m3Values[b] }

var (
	e4m3Values = decodeE4M3()
	e2m1Values = [16]float32{0, .5, 1, 1.5, 2, 3, 4, 6, float32(math.Copysign(0, -1)), -.5, -1, -1.5, -2, -3, -4, -6}
)

func decodeE4M3() (out [256]float32) {
	for b := range out {
		v := float64(b&7) / 512
		if e := b >> 3 & 15; e > 0 {
			v = math.Ldexp(1+float64(b&7)/8, e-7)
		}
		if b&0x7f == 0x7f {
			v = math.NaN()
		}
		if b&0x80 != 0 {
			v = -v
		}
		out[b] = float32(v)
	}
	return out
}

func e2m1(x float32) byte {
	b := math.Float32bits(x)
	sign := byte(b >> 28 & 8)
	a := b & 0x7fffffff
	switch {
	case a >= 0x40c00000: // 6
		return sign | 7
	case a < 0x3f800000: // 1
		const magic = 1 << 22 // adding it rounds to multiples of 0.5
		return sign | byte(math.Float32bits(math.Float32frombits(a)+magic))
	}
	a += 0x1fffff + a>>22&1
	return sign | byte(a>>22-126<<1)
}

func widen(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

func narrow(x float32) uint16 {
	b := math.Float32bits(x)
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// applyGain computes y, the received row times `gain`.
func applyGain(l dtype.Encoding, payload, scales []byte, gain float32, y []uint16) {
	for c := range y {
		var x float32
		switch l.DType {
		case ep.FP8:
			x = fromE4M3(payload[c]) * math.Float32frombits(binary.LittleEndian.Uint32(scales[c/l.Group*4:]))
		case ep.MXFP4:
			x = e2m1Values[payload[c/2]>>(c%2*4)&15] * exponent(int(scales[c/l.Group]))
		case ep.NVFP4:
			s := fromE4M3(scales[c/l.Group]) * (1 / float32(inputScale))
			x = e2m1Values[payload[c/2]>>(c%2*4)&15] * s
		default:
			x = widen(binary.LittleEndian.Uint16(payload[2*c:]))
		}
		y[c] = narrow(x * gain)
	}
}
