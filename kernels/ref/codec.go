package ref

import "math"

// BF16ToFloat returns the value of a BF16 number.
func BF16ToFloat(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// BF16 rounds x to the nearest BF16 number, ties to even. NaN stays NaN.
func BF16(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

const maxE4M3 = 448

// E4M3 rounds x to the nearest e4m3fn number (4 exponent bits, bias 7), ties to even. Larger values become 448, and
// NaN becomes 0x7f.
func E4M3(x float32) byte {
	const (
		leastNormal = 1. / 64
		drop        = 23 - 3 // dropped bits
		rebias      = 127 - 7
		// At this size float32 numbers are 2^-9 apart, like subnormal e4m3fn numbers.
		step = 1 << 14
	)
	bits := math.Float32bits(x)
	sign, a := byte(bits>>31)<<7, bits&0x7fffffff
	switch size := math.Float32frombits(a); {
	case x != x:
		return 0x7f
	case size >= maxE4M3:
		return sign | 0x7e
	case size < leastNormal:
		return sign | byte(math.Float32bits(size+step))
	}
	odd := a >> drop & 1
	rounded := a + (1<<(drop-1) - 1) + odd // may carry into the exponent
	return sign | byte((rounded>>drop)-(rebias<<3))
}

// E4M3ToFloat decodes an e4m3fn byte.
func E4M3ToFloat(b byte) float32 { return e4m3[b] }

var e4m3 = func() (values [256]float32) {
	for b := range values {
		values[b] = decodeE4M3(byte(b))
	}
	return values
}()

func decodeE4M3(b byte) float32 {
	e, m := int(b>>3&15), float64(b&7)
	v := math.Ldexp(m, -9)
	switch {
	case e == 15 && m == 7:
		v = math.NaN()
	case e > 0:
		v = math.Ldexp(8+m, e-10)
	}
	if b&0x80 != 0 {
		v = -v
	}
	return float32(v)
}

var e2m1 = [8]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6}

// E2M1 returns the nearest e2m1 code, with the sign in bit 3. Ties go to the even code, larger values become 6, and
// NaN becomes +6.
func E2M1(x float32) byte {
	if x != x {
		return 7
	}
	a := min(math.Abs(float64(x)), 6)
	best := 0
	for code := 1; code < len(e2m1); code++ {
		d, least := math.Abs(a-float64(e2m1[code])), math.Abs(a-float64(e2m1[best]))
		if d < least || d == least && code%2 == 0 {
			best = code
		}
	}
	return byte(math.Float32bits(x)>>31)<<3 | byte(best)
}

// E2M1ToFloat decodes the low four bits.
func E2M1ToFloat(code byte) float32 {
	if code&8 != 0 {
		return -e2m1[code&7]
	}
	return e2m1[code&7]
}

// E8M0ToFloat returns the scale 2^(b-127), and NaN for 255.
func E8M0ToFloat(b byte) float32 {
	if b == 255 {
		return float32(math.NaN())
	}
	return float32(math.Ldexp(1, int(b)-127))
}

// EvenE8M0 returns the e8m0 scale of a group whose largest magnitude is amax. This is OCP Microscaling Formats 1.0
// with the rounding mode "even" of AMD's Quark.
func EvenE8M0(amax float32) byte {
	e := int((math.Float32bits(amax)+1<<21)>>23&0xff) - 2
	return byte(min(max(e, 0), 254))
}
