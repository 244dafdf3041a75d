package workloads

import "math/bits"

// rng is the SplitMix64 generator. We do not use math/rand/v2, because its numbers may change with a Go release.
type rng uint64

const (
	streamHot = iota + 1
	streamIDs
	streamWeights
	streamDeal
	streamSizes
	streamMask
	streamDrift
	streamReplica
)

// newRNG returns a generator with an independent stream for each sequence of keys.
func newRNG(keys ...uint64) *rng {
	h := uint64(0x6570_6265_6e63_6821)
	for _, k := range keys {
		h = mix(h ^ k)
	}
	r := rng(h)
	return &r
}

func (r *rng) next() uint64 {
	x := mix(uint64(*r))
	*r += 0x9e3779b97f4a7c15
	return x
}

// below returns a uniform number in [0, n), with a bias of at most n/2^64.
func (r *rng) below(n int) int {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int(hi)
}

// float returns a uniform number in (0, 1): an odd multiple of 2^-53.
func (r *rng) float() float64 {
	return float64(float64(r.next()>>12)+0.5) * (1.0 / (1 << 52))
}

func (r *rng) perm(n int) []int32 {
	p := newIdentity(n)
	shuffle(r, p)
	return p
}

func newIdentity(n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(i)
	}
	return p
}

func shuffle[T any](r *rng, s []T) {
	for i := len(s) - 1; i > 0; i-- {
		j := r.below(i + 1)
		s[i], s[j] = s[j], s[i]
	}
}
