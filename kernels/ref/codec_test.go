package ref

import (
	"math"
	"testing"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

func TestE4M3KnownValues(t *testing.T) {
	for x, want := range map[float32]byte{
		0: 0x00, 1: 0x38, -1: 0xb8, 448: 0x7e, 449: 0x7e, 1e9: 0x7e, -1e9: 0xfe,
		0.015625: 0x08, 0.001953125: 0x01, 0.0009765625: 0x00, 0.00097657: 0x01,
		1.0625: 0x38, 1.1875: 0x3a, 17: 0x58, 19: 0x5a, 464: 0x7e,
	} {
		if got := E4M3(x); got != want {
			t.Errorf("E4M3(%g) = %#02x, want %#02x", x, got, want)
		}
	}
	if got := E4M3(float32(math.Inf(-1))); got != 0xfe {
		t.Errorf("E4M3(-Inf) = %#02x", got)
	}
}

func TestE4M3RoundTrips(t *testing.T) {
	for b := range 256 {
		x := E4M3ToFloat(byte(b))
		if x != x {
			if b&0x7f != 0x7f {
				t.Errorf("%#02x decodes to NaN", b)
			}
			continue
		}
		if got := E4M3(x); got != byte(b) {
			t.Errorf("%#02x decodes to %g, which encodes to %#02x", b, x, got)
		}
	}
}

func TestE4M3Thresholds(t *testing.T) {
	for code := range byte(0x7e) {
		low, high := E4M3ToFloat(code), E4M3ToFloat(code+1)
		middle, even := (low+high)/2, code+code%2
		for x, want := range map[float32]byte{
			math.Nextafter32(middle, 0): code, middle: even, math.Nextafter32(middle, 1e9): code + 1, math.Nextafter32(low, 1e9): code, math.Nextafter32(high, 0): code + 1,
		} {
			if got := E4M3(x); got != want {
				t.Errorf("%v, between %v and %v, becomes %#02x, want %#02x", x, low, high, got, want)
			}
			if got := E4M3(-x); got != want|0x80 {
				t.Errorf("%v becomes %#02x, want %#02x", -x, got, want|0x80)
			}
		}
	}
}

func TestE2M1Thresholds(t *testing.T) {
	for _, c := range []struct {
		at           float32
		below, above float32
		tieUp        bool
	}{
		{0.25, 0, 0.5, false}, {0.75, 0.5, 1, true}, {1.25, 1, 1.5, false}, {1.75, 1.5, 2, true},
		{2.5, 2, 3, false}, {3.5, 3, 4, true}, {5, 4, 6, false},
	} {
		at := c.below
		if c.tieUp {
			at = c.above
		}
		for x, want := range map[float32]float32{
			math.Nextafter32(c.at, 0): c.below, c.at: at, math.Nextafter32(c.at, 9): c.above,
		} {
			if got := E2M1ToFloat(E2M1(x)); got != want {
				t.Errorf("%v becomes %v, want %v", x, got, want)
			}
			if got := E2M1ToFloat(E2M1(-x)); got != -want {
				t.Errorf("%v becomes %v, want %v", -x, got, -want)
			}
		}
	}
	if E2M1(1e30) != 7 || E2M1(float32(math.Inf(-1))) != 15 {
		t.Error("large magnitudes do not saturate at 6")
	}
}

func TestEvenE8M0(t *testing.T) {
	for amax, want := range map[float32]byte{
		0: 0, 6: 127, 4: 127, 7: 128, 6.9999995: 127, 1: 125, 1.75: 126, 1.7499999: 125, 3e38: 253, 1e-40: 0,
	} {
		if got := EvenE8M0(amax); got != want {
			t.Errorf("EvenE8M0(%g) = %d, want %d", amax, got, want)
		}
	}
	if E8M0ToFloat(127) != 1 || E8M0ToFloat(0) != float32(math.Ldexp(1, -127)) || E8M0ToFloat(255) == E8M0ToFloat(255) {
		t.Error("e8m0 decodes wrongly")
	}
}

func TestBF16Rounding(t *testing.T) {
	for bits, want := range map[uint32]uint16{
		0x3f800000: 0x3f80, 0x3f808000: 0x3f80, 0x3f808001: 0x3f81, 0x3f818000: 0x3f82, 0x7f7fffff: 0x7f80, 0x80000000: 0x8000,
	} {
		if got := BF16(math.Float32frombits(bits)); got != want {
			t.Errorf("BF16(%#x) = %#x, want %#x", bits, got, want)
		}
	}
	if b := BF16(math.Float32frombits(0x7f800001)); BF16ToFloat(b) == BF16ToFloat(b) {
		t.Error("a NaN became a number")
	}
}

func TestQuantizeGroups(t *testing.T) {
	ramp := make([]float32, 128)
	for i := range ramp {
		ramp[i] = float32(i-64) / 64 * 6
	}
	for _, c := range []struct {
		dtype  ep.DType
		global float32
		x      []float32
		scale  float32
	}{
		{ep.FP8, 1, make([]float32, 128), 1e-4 / 448},
		{ep.FP8, 1, ramp, 6. / 448},
		{ep.MXFP4, 1, ramp, 1},
		{ep.MXFP4, 1, make([]float32, 128), float32(math.Ldexp(1, -127))},
		{ep.NVFP4, 1, ramp, 1},
		{ep.NVFP4, 2, ramp, 1},
		{ep.NVFP4, 0.5, ramp, 1},
		{ep.NVFP4, 1, make([]float32, 128), 0},
	} {
		row := Quantize(c.dtype, c.x, c.global)
		back := Dequantize(c.dtype, row, len(c.x), c.global)
		if c.x[0] == 0 {
			for i, v := range back {
				if v != 0 {
					t.Fatalf("%s: zero %d came back as %g", c.dtype, i, v)
				}
			}
		} else if back[0] != -6 {
			t.Errorf("%s with global scale %g: the largest magnitude, -6, came back as %g", c.dtype, c.global, back[0])
		}
		if got := scaleOf(c.dtype, row, c.global); got != c.scale {
			t.Errorf("%s with global scale %g: scale %g, want %g", c.dtype, c.global, got, c.scale)
		}
	}
}

// scaleOf returns a row's first scale, divided by the global scale.
func scaleOf(f ep.DType, row Row, global float32) float32 {
	switch f {
	case ep.FP8:
		return math.Float32frombits(uint32(row.Scales[0]) | uint32(row.Scales[1])<<8 | uint32(row.Scales[2])<<16 | uint32(row.Scales[3])<<24)
	case ep.MXFP4:
		return E8M0ToFloat(row.Scales[0])
	}
	return E4M3ToFloat(row.Scales[0]) / global
}

// TestQuantizationError: the error is at most half a step of the dtype.
func TestQuantizationError(t *testing.T) {
	x := make([]float32, 256)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)*1.7)) * 3
	}
	for f, most := range map[ep.DType]float64{ep.BF16: 1. / 256, ep.FP8: 1. / 16, ep.MXFP4: 1. / 3, ep.NVFP4: 1. / 4} {
		back := Dequantize(f, Quantize(f, x, 1), len(x), 1)
		for i := range x {
			if off := math.Abs(float64(back[i] - x[i])); off > most*3 {
				t.Errorf("%s column %d: %g came back as %g", f, i, x[i], back[i])
			}
		}
	}
}

func TestScaleLayouts(t *testing.T) {
	const rows, maxRows = 256, 256
	for _, f := range []ep.DType{ep.FP8, ep.MXFP4, ep.NVFP4} {
		l := dtype.Of(f, 512)
		seen := map[int]bool{}
		for r := range rows {
			for g := range l.Scales {
				at := ScaleAt(l, g, r, r, 0, maxRows)
				if seen[at] || at < 0 || at+l.ScaleBytes > l.Scales*l.ScaleBytes*maxRows {
					t.Fatalf("%s: row %d scale %d at %d", f, r, g, at)
				}
				seen[at] = true
			}
		}
	}
	if got := ScaleAt(dtype.Of(ep.FP8, 512), 3, 5, 0, 0, 100); got != (3*100+5)*4 {
		t.Errorf("fp8: %d", got)
	}
	if got := ScaleAt(dtype.Of(ep.MXFP4, 512), 3, 5, 0, 0, 100); got != 5*16+3 {
		t.Errorf("mxfp4: %d", got)
	}
	// Row 200 of a group that begins at block 2 is row 72 of block 3. A block has 8 columns of 512 bytes.
	if got := ScaleAt(dtype.Of(ep.NVFP4, 512), 9, 0, 200, 2, 0); got != 3*8*512+2*512+8*16+2*4+1 {
		t.Errorf("nvfp4: %d", got)
	}
}

func TestActivations(t *testing.T) {
	if Silu(0, 3) != 0 || math.Abs(Silu(1, 2)-2/(1+math.Exp(-1))) > 1e-15 {
		t.Error("silu")
	}
	gates, ups := []float32{-3, 0.5, 9, 2}, []float32{1, -2, 8, -9}
	split, mixed := make([]uint16, 8), make([]uint16, 8)
	for i := range gates {
		split[i], split[4+i] = BF16(gates[i]), BF16(ups[i])
		mixed[2*i], mixed[2*i+1] = split[i], split[4+i]
	}
	plain, inter := Activation{}.Row(split), Activation{Interleaved: true}.Row(mixed)
	clamp := Clamp{Limit: 7, Alpha: 1.702}
	clamped := Activation{Clamp: &clamp}.Row(split)
	for i := range gates {
		if plain[i] != Silu(gates[i], ups[i]) || plain[i] != inter[i] {
			t.Errorf("column %d: %g, interleaved %g, want %g", i, plain[i], inter[i], Silu(gates[i], ups[i]))
		}
		if clamped[i] != clamp.Apply(gates[i], ups[i]) {
			t.Errorf("column %d clamped: %g", i, clamped[i])
		}
	}
	if got, want := clamp.Apply(100, 100), clamp.Apply(7, 7); got != want {
		t.Errorf("beyond the limit: %g, want %g", got, want)
	}
	if got, want := clamp.Apply(-100, -100), clamp.Apply(-100, -7); got != want {
		t.Errorf("the gate has no lower limit: %g, want %g", got, want)
	}
}
