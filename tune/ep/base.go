package ep

import (
	"math"
	"slices"
)

// maxSharedDrift limits the relative drift of the matrix product's time over rounds. With more drift, ShareBase sets no
// Base.
const maxSharedDrift = 0.005

// ShareBase combines the times of a matrix product that several configs measured in the same rounds. Each config ran
// beside this product, and also measured the product without calls (BesideRounds.Product). ShareBase sets Base of every
// config to the lower quartile of these times, for each round and rank. So noise in one measurement of the product does
// not change the comparison of configs. ShareBase sets no Base if the product's time drifts too much.
func ShareBase(all []*BesideRounds) {
	var base [][]float64
	for k := 0; ; k++ {
		row := baseOf(all, k)
		if len(row) == 0 {
			break
		}
		base = append(base, row)
	}
	share := drift(base) <= maxSharedDrift
	for _, t := range all {
		t.Base = nil
		if share {
			t.Base = slices.Clone(base[:len(t.Product)])
		}
	}
}

func baseOf(all []*BesideRounds, k int) (base []float64) {
	for rank := 0; ; rank++ {
		var read []float64
		for _, t := range all {
			if k < len(t.Product) && rank < len(t.Product[k]) {
				read = append(read, t.Product[k][rank])
			}
		}
		if len(read) == 0 {
			return base
		}
		slices.Sort(read)
		base = append(base, read[(len(read)-1)/4])
	}
}

func drift(rounds [][]float64) (most float64) {
	if len(rounds) == 0 {
		return 0
	}
	for rank := range rounds[0] {
		var times []float64
		for _, ranks := range rounds {
			times = append(times, ranks[rank])
		}
		mid := lowerMedian(times)
		for i, t := range times {
			times[i] = math.Abs(t - mid)
		}
		most = max(most, lowerMedian(times)/mid)
	}
	return most
}

func lowerMedian(values []float64) float64 {
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
