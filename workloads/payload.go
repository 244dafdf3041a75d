package workloads

import (
	"math/bits"

	"github.com/epbench/epbench/tune/ep"
)

// Token fills dst with one token's hidden vector as BF16 bits: random sign and mantissa, magnitude
// in [2^-3, 2). The values depend only on seed, rank, token and column. With SkipA2A, tokens are
// the same on all ranks.
func (w *Workload) Token(rank, token int, dst []uint16) {
	if w.Problem.SkipA2A {
		rank = 0
	}
	base := mix(w.Seed ^ uint64(rank)<<40 ^ uint64(token))
	for c := 0; c < len(dst); c += 4 {
		h := mix(base + uint64(c))
		for i := c; i < min(c+4, len(dst)); i++ {
			dst[i] = uint16(h)&0x807f | uint16(124+(h>>8&3))<<7
			h >>= 16
		}
	}
}

const drawnTogether = 64

// Tokens returns the BF16 bits of all tokens of a rank's batch, [tokens, hidden].
func (w *Workload) Tokens(rank int) []uint16 {
	n, hidden := w.Ranks[w.BatchRank(rank)].Tokens, w.Problem.Hidden
	x := make([]uint16, n*hidden)
	parallel((n+drawnTogether-1)/drawnTogether, func(i int) {
		for t := i * drawnTogether; t < min((i+1)*drawnTogether, n); t++ {
			w.Token(rank, t, x[t*hidden:(t+1)*hidden])
		}
	})
	return x
}

// mix returns a hash of x: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Weight fills dst with elements of an expert's weight matrix as BF16 bits, row-major, from element `first` on. `first`
// is a multiple of 4. Matrix 0 is W1 [2 * Intermediate, Hidden], the gate rows first. Matrix 1 is W2 [Hidden,
// Intermediate]. Magnitudes lie in [2^(-3-s), 2^(1-s)). 2^s is about the square root of the row length, so products
// with tokens are about as large as the tokens. For FP8 tokens, E4M3 can hold a weight times 2^s exactly.
func (w *Workload) Weight(expert, matrix, first int, dst []uint16) {
	row := w.Problem.Hidden
	if matrix == 1 {
		row = w.Problem.Intermediate
	}
	low, keep := uint16(124-(bits.Len(uint(row))-1)/2), uint16(0x807f)
	if w.Problem.Dispatch == ep.FP8 {
		keep = 0x8070
	}
	base := mix(w.Seed ^ 1<<62 ^ uint64(expert)<<1 ^ uint64(matrix))
	for i := 0; i < len(dst); i += 4 {
		h := mix(base + uint64(first+i))
		for j := i; j < min(i+4, len(dst)); j++ {
			dst[j] = uint16(h)&keep | (low+uint16(h>>8&3))<<7
			h >>= 16
		}
	}
}

// ExpertGain returns the factor that stands in for an expert's MLP. Experts have different factors,
// so that a row at the wrong expert changes the sum.
func ExpertGain(expert int) float32 { return (32 + float32(expert%64)) / 64 }

// SharedGain is the factor of the shared expert.
const SharedGain float32 = 1.25
