package pack

import (
	"math/bits"
	"sort"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/tune/ep"
)

// WithoutBinaries is a Compile for a pack whose memory is asked for and whose kernels are not run.
func WithoutBinaries(_ string, units []declare.Unit) (Compiled, error) {
	out := Compiled{Cubins: make([][]byte, len(units)), Network: "0.0.0"}
	for i := range out.Cubins {
		out.Cubins[i] = []byte{0}
	}
	return out, nil
}

// Fitter finds how many tokens of a rank fit into device memory.
type Fitter struct {
	Request Request // Problem.MaxTokens is not read
	packs   map[int]*Pack
}

// Tokens returns the most tokens of a rank in one call with which the memory of a rank stays
// within so many bytes, rounded down to a quarter of a power of two, and that memory. It is 0 if
// one token does not fit. Each count that is tried needs the answers of a whole pack.
func (f *Fitter) Tokens(bytes int64, inFlight int) (tokens int, heap int64, err error) {
	// A larger call never needs less memory: its buffers grow. No pack can be made for more tokens
	// than its kernels hold, so that an error ends the search like a count that does not fit.
	i := sort.Search(len(fitCounts), func(i int) bool {
		p, bad := f.Pack(fitCounts[i])
		return bad != nil || p.HeapBytes(inFlight) > bytes
	})
	if i == 0 {
		_, err := f.Pack(fitCounts[0])
		return 0, 0, err
	}
	p, err := f.Pack(fitCounts[i-1])
	if err != nil {
		return 0, 0, err
	}
	return fitCounts[i-1], p.HeapBytes(inFlight), nil
}

// fitCounts lists the token counts that Tokens tries: 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, ...
var fitCounts = func() (out []int) {
	for n := 1; n <= ep.MaxTokens; n += 1 << max(0, bits.Len(uint(n))-3) {
		out = append(out, n)
	}
	return out
}()

// InFlight returns how many calls of so many tokens fit at once.
func (f *Fitter) InFlight(bytes int64, tokens int) (int, error) {
	p, err := f.Pack(tokens)
	if err != nil {
		return 0, err
	}
	return max(0, int((bytes-p.HeapBytes(0))/(p.HeapBytes(1)-p.HeapBytes(0)))), nil
}

// Pack returns the pack for so many tokens, without device binaries.
func (f *Fitter) Pack(tokens int) (*Pack, error) {
	if p := f.packs[tokens]; p != nil {
		return p, nil
	}
	r := f.Request
	r.Problem.MaxTokens = tokens
	p, err := Build(r, WithoutBinaries)
	if err != nil {
		return nil, err
	}
	if f.packs == nil {
		f.packs = map[int]*Pack{}
	}
	f.packs[tokens] = p
	return p, nil
}
