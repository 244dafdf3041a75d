package ref

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestPlaces(t *testing.T) {
	before := float32(math.Inf(-1))
	for place := int(placeOf(0xff80)); place <= int(placeOf(0x7f80)); place++ {
		x := atPlace(uint16(place))
		if placeOf(uint16(math.Float32bits(x)>>16)) != uint16(place) || x < before {
			t.Fatalf("place %#04x holds %g, and before it is %g", place, x, before)
		}
		before = x
	}
	for _, nan := range []uint16{0x7f81, 0x7fff, 0xff81, 0xffff} {
		if p := placeOf(nan); p >= placeOf(0xff80) && p <= placeOf(0x7f80) {
			t.Errorf("NaN %#04x has place %#04x, between those of numbers", nan, p)
		}
	}
}

func TestSumBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		exact := rapid.Float64Range(-1e30, 1e30).Draw(t, "exact") * rapid.SampledFrom([]float64{1, 1e-28, 1e-66, 0}).Draw(t, "scale")
		bound := rapid.SampledFrom([]float64{0, 1e-38, math.Abs(exact) / 1000, math.Abs(exact) / 256, math.Abs(exact) / 50}).Draw(t, "bound")
		b := Sum{make([]uint16, 1), []float64{exact}, []float64{bound}}.bounds(false)
		near := placeOf(BF16(float32(exact)))
		for place := int(near) - 12; place <= int(near)+12; place++ {
			x := float64(atPlace(uint16(place)))
			want := math.Abs(x-exact) <= bound
			if got := uint16(place) >= b.low[0] && uint16(place) <= b.high[0]; got != want {
				t.Fatalf("%g, exact %g, bound %g: %v, want %v", x, exact, bound, got, want)
			}
		}
	})
}

// TestKeptSums: an oracle that reuses bounds gives the same results as a new oracle.
func TestKeptSums(t *testing.T) {
	w := tiny(nil)
	kept := New(w, 1)
	for range 2 {
		for _, c := range []Compare{{}, {Partial: F32Partial}, {Partial: BF16Partial}, {Bits: true}, {Bits: true, Partial: F32Partial},
			{Bits: true, Partial: BF16Partial}, {Epilogue: &Epilogue{Scale: 2}}} {
			for rank := range w.Ranks {
				fresh := New(w, 1)
				want := fresh.finished(rank, 0, c).Want
				for _, wrong := range []int{-1, 5} {
					got := append([]uint16(nil), want...)
					if wrong >= 0 {
						got[wrong] ^= 0x40
					}
					f, g := kept.checkSum(rank, 0, got, c), fresh.checkSum(rank, 0, got, c)
					if f != g || (f.wrong != "") != (wrong >= 0) {
						t.Errorf("%+v, rank %d, wrong column %d: %+v with kept bounds, but %+v with a new oracle", c, rank, wrong, f, g)
					}
				}
			}
		}
	}
}
