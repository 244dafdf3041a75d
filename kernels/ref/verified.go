package ref

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/epbench/epbench/kernels"
)

// proven remembers which bits of a rank's combined tokens were right. Most
// candidates sum in the same order and leave the same bits, so that the oracle
// need not sum again in float64, which took a third of a sweep. Each rank has its
// own, because ranks are judged at the same time.
type verifiedBits struct {
	seed  maphash.Seed
	known map[bitsKey]kernels.Comparison
}

type bitsKey struct {
	compare Compare
	hash    uint64
}

func newVerifiedBits() *verifiedBits {
	return &verifiedBits{maphash.MakeSeed(), map[bitsKey]kernels.Comparison{}}
}

// hash is that of the rows' hashes, which are computed side by side.
func (p *verifiedBits) hash(rows [][]byte) uint64 {
	sums := make([]byte, 8*len(rows))
	parallel(len(rows), func(i int) { binary.LittleEndian.PutUint64(sums[8*i:], maphash.Bytes(p.seed, rows[i])) })
	return maphash.Bytes(p.seed, sums)
}

// check judges rows, unless the same bits were found right before, and as
// strictly.
func (p *verifiedBits) check(c Compare, rows [][]byte, judge func() kernels.Comparison) kernels.Comparison {
	key := bitsKey{c, p.hash(rows)}
	if v, ok := p.known[key]; ok {
		return v
	}
	v := judge()
	if v.OK() {
		p.known[key] = v
	}
	return v
}
