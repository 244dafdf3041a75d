package search

import (
	"math"
	"slices"
)

// neglected returns the most promising option of the kernel with the fewest tried points. It looks only at kernels that
// are nearly as fast as the best one and that have no point in the batch. If there is no such kernel, it returns
// `otherwise`. Without this choice, one slow point of a kernel could keep the search away from the kernel.
func (b *bayesSearch) neglected(all []option, batch []int, least float64, otherwise option) option {
	of := map[string][]option{}
	for _, o := range all {
		of[b.design(o.point)] = append(of[b.design(o.point)], o)
	}
	for _, i := range batch {
		delete(of, b.design(i))
	}
	fewest, out := math.MaxInt, otherwise
	for _, k := range b.kernels {
		// Failed points count as tried, so that a kernel whose configs hang is not chosen again and again.
		tried := slices.DeleteFunc(slices.Clone(k.points), b.Fresh)
		known := b.Ranked(tried)
		if len(of[k.kernel]) > 0 && len(known) > 0 && len(tried) < fewest && b.Score(known[0]) <= least+neglectedGap {
			fewest, out = len(tried), mostPromising(of[k.kernel])
		}
	}
	return out
}

func (b *bayesSearch) design(point int) string { return b.Space.Design(b.Space.Config(point)) }
