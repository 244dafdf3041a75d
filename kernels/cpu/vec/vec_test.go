package vec

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

func TestSumEqualsPortable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, cols := range []int{8, 16, 24, 32, 40, 64, 120, 256, 2880, 7168} {
		for _, n := range []int{0, 1, 2, 3, 8, 32} {
			rows, weights := make([][]uint16, n), make([]float32, n)
			for k := range rows {
				rows[k] = values(rng, cols)
				weights[k] = rng.Float32() - 0.3
			}
			got, want := make([]uint16, cols), make([]uint16, cols)
			Sum(got, rows, weights)
			sumPortable(want, rows, weights, 0)
			if !slices.Equal(got, want) {
				t.Fatalf("%d rows of %d columns differ", n, cols)
			}
		}
	}
}

// values returns finite BF16 numbers of every magnitude, and both zeros.
func values(rng *rand.Rand, n int) []uint16 {
	out := make([]uint16, n)
	for i := range out {
		out[i] = uint16(rng.Uint32())
		if out[i]&0x7f80 == 0x7f80 {
			out[i] &= 0x8000
		}
	}
	return out
}

func TestSumStartsFromZero(t *testing.T) {
	minus := slices.Repeat([]uint16{0x8000}, 8)
	got := make([]uint16, 8)
	Sum(got, [][]uint16{minus}, []float32{1})
	if got[0] != 0 {
		t.Errorf("0 + -0 gave %#x", got[0])
	}
	got[0] = 7
	Sum(got, nil, nil)
	if got[0] != 0 {
		t.Errorf("an empty sum gave %#x", got[0])
	}
}

func TestStreamCopiesAnyAlignment(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	src := unsafe.Slice((*byte)(unsafe.Pointer(&values(rng, 4096)[0])), 8192)
	for _, n := range []int{0, 1, 16, 127, 128, 144, 4096, 8000} {
		for _, off := range []int{0, 1, 16, 32} {
			dst := make([]byte, 8192+64)
			Stream(dst[off:off+n], src[:n])
			if !bytes.Equal(dst[off:off+n], src[:n]) {
				t.Fatalf("%d bytes at %d differ", n, off)
			}
			if i := slices.IndexFunc(dst[off+n:], func(b byte) bool { return b != 0 }); i >= 0 {
				t.Fatalf("%d bytes at %d: wrote %d bytes past the end", n, off, i+1)
			}
		}
	}
}

func TestAddRoundsToEven(t *testing.T) {
	dst, src := []uint16{0x3f80, 0x3f81}, []uint16{0x3b80, 0x3b80} // 1 + 2^-8, 1.0078125 + 2^-8
	Add(dst, src)
	if want := []uint16{0x3f80, 0x3f82}; !slices.Equal(dst, want) {
		t.Errorf("got %#x, want %#x", dst, want)
	}
}

func BenchmarkSum(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	rows, weights := make([][]uint16, 8), make([]float32, 8)
	for k := range rows {
		rows[k], weights[k] = values(rng, 7168), 0.125
	}
	dst := make([]uint16, 7168)
	b.SetBytes(8 * 2 * 7168)
	for b.Loop() {
		Sum(dst, rows, weights)
	}
}
