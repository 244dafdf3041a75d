package cpu

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// TestCodecsEqualOracle tries float32s whose lower 12 bits are 0, 1 or 0xfff.
func TestCodecsEqualOracle(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 37 // a prime, so that every exponent is tried
	}
	for high := uint32(0); high < 1<<20; high += uint32(step) {
		for _, low := range []uint32{0, 1, 0xfff} {
			x := math.Float32frombits(high<<12 | low)
			if x != x {
				continue
			}
			if got, want := e4m3(x), ref.E4M3(x); got != want {
				t.Fatalf("e4m3(%g) = %#x, want %#x", x, got, want)
			}
			if got, want := e2m1(x), ref.E2M1(x); got != want {
				t.Fatalf("e2m1(%g) = %#x, want %#x", x, got, want)
			}
			if got, want := narrow(x), ref.BF16(x); got != want {
				t.Fatalf("bf16(%g) = %#x, want %#x", x, got, want)
			}
		}
	}
}

func TestQuantizeEqualsOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	x, wide := make([]uint16, 2048), make([]float32, 2048)
	for _, f := range []ep.DType{ep.FP8, ep.MXFP4, ep.NVFP4} {
		l := dtype.Of(f, len(x))
		payload, scales := make([]byte, l.Payload), make([]byte, l.Scales*l.ScaleBytes)
		for round := range 200 {
			fillFinite(rng, x, round)
			for i, b := range x {
				wide[i] = widen(b)
			}
			quantize(l, x, payload, scales)
			want := ref.Quantize(f, wide, inputScale)
			if !bytes.Equal(scales, want.Scales) {
				t.Fatalf("%s: scales differ in round %d", f, round)
			}
			if !bytes.Equal(payload, want.Payload) {
				t.Fatalf("%s: elements differ in round %d", f, round)
			}
		}
	}
}

// fillFinite draws finite BF16 values. In round 0, all values are zero. In later rounds, their range grows.
func fillFinite(rng *rand.Rand, x []uint16, round int) {
	for i := range x {
		e := 127 + rng.IntN(round+1) - round/2
		x[i] = uint16(rng.Uint32())&0x807f | uint16(min(max(e, 0), 254))<<7
		if round == 0 {
			x[i] = 0
		}
	}
}

func TestApplyGainEqualsOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	x, wide := make([]uint16, 256), make([]float32, 256)
	fillFinite(rng, x, 6)
	for i, b := range x {
		wide[i] = widen(b)
	}
	for _, f := range ep.DTypes() {
		row := ref.Quantize(f, wide, inputScale)
		got := make([]uint16, len(x))
		applyGain(dtype.Of(f, len(x)), row.Payload, row.Scales, 0.703125, got)
		for i, v := range ref.Dequantize(f, row, len(x), inputScale) {
			if want := ref.BF16(v * 0.703125); got[i] != want {
				t.Fatalf("%s column %d: %#x, want %#x", f, i, got[i], want)
			}
		}
	}
}
