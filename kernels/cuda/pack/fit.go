package pack

import (
	"math/bits"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// Fitter finds how many tokens of each rank fit into device memory.
type Fitter struct {
	Request Request // without its Problem.MaxTokens
	known   map[int]sizing
}

type sizing struct {
	around, slot int64 // bytes that all calls share, and bytes of each call
	err          error
}

func (s sizing) heap(inFlight int) int64 { return s.around + int64(inFlight)*s.slot }

// Tokens returns the largest count in fitCounts with which a pack's memory fits into `bytes`, and the size of this
// memory. It returns 0 if no count fits.
func (f *Fitter) Tokens(bytes int64, inFlight int) (tokens int, heap int64, err error) {
	if err := f.sizing(fitCounts[0]).err; err != nil {
		return 0, 0, err
	}
	lo, hi := -1, len(fitCounts) // lo fits, hi does not
	for secant := false; hi-lo > 1; secant = !secant {
		i := (lo + hi) / 2
		if secant {
			i = f.estimate(bytes, inFlight, lo, hi)
		}
		if s := f.sizing(fitCounts[i]); s.err != nil || s.heap(inFlight) > bytes {
			hi = i
		} else {
			lo = i
		}
	}
	if lo < 0 {
		return 0, 0, nil
	}
	return fitCounts[lo], f.sizing(fitCounts[lo]).heap(inFlight), nil
}

func (f *Fitter) estimate(bytes int64, inFlight, lo, hi int) int {
	if lo < 0 || hi == len(fitCounts) || f.sizing(fitCounts[hi]).err != nil {
		return (lo + hi) / 2
	}
	below, above := fitCounts[lo], fitCounts[hi]
	from, to := f.sizing(below).heap(inFlight), f.sizing(above).heap(inFlight)
	at := float64(below) + float64(above-below)*float64(bytes-from)/float64(to-from)
	i, _ := slices.BinarySearch(fitCounts, int(at)+1)
	return min(max(i-1, lo+1), hi-1)
}

// fitCounts lists the counts for Tokens: 1 to 8, 10, 12, 14, 16, 20 and so on.
var fitCounts = func() (out []int) {
	for n := 1; n <= ep.MaxTokens; n += 1 << max(0, bits.Len(uint(n))-3) {
		out = append(out, n)
	}
	return out
}()

// Beyond tries the smallest count in fitCounts above `tokens`. It returns nil if a pack can be made for this count, and
// otherwise the reason why not.
func (f *Fitter) Beyond(tokens int) error {
	i, _ := slices.BinarySearch(fitCounts, tokens+1)
	if i == len(fitCounts) {
		return nil
	}
	return f.sizing(fitCounts[i]).err
}

// InFlight returns how many calls of `tokens` tokens fit into `bytes`.
func (f *Fitter) InFlight(bytes int64, tokens int) (int, error) {
	s := f.sizing(tokens)
	if s.err != nil {
		return 0, s.err
	}
	return max(0, int((bytes-s.around)/s.slot)), nil
}

func (f *Fitter) sizing(tokens int) sizing {
	if s, ok := f.known[tokens]; ok {
		return s
	}
	r := f.Request
	r.Problem.MaxTokens = tokens
	s := r.sizing()
	if f.known == nil {
		f.known = map[int]sizing{}
	}
	f.known[tokens] = s
	return s
}

func (r Request) sizing() sizing {
	if err := r.check(); err != nil {
		return sizing{err: err}
	}
	lookups, _, err := r.lookups()
	if err != nil {
		return sizing{err: err}
	}
	b := newBuilder(r)
	b.addDTypes()
	for _, l := range lookups {
		v := r.resolver(l.DType, l.Reduced, l.Class)
		for _, run := range l.Runs {
			for _, pair := range []Pair{run.Pair, run.Elsewhere} {
				if _, err := b.plan(v, pair, run.Hi); err != nil {
					return sizing{err: err}
				}
			}
		}
	}
	p := b.sizes()
	return sizing{around: p.HeapBytes(0), slot: p.HeapBytes(1) - p.HeapBytes(0)}
}
