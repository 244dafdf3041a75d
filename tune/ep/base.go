package ep

import (
	"math"
	"slices"
)

// maxSharedDrift limits the relative drift of the matrix product's time. With more drift, ShareBase sets no Base.
const maxSharedDrift = 0.005

// ShareBase sets one Base, the time of the matrix product without calls, for all configs that ran in the same rounds.
// For each round and rank, Base is the lower quartile of the times that the configs read for the product. ShareBase
// sets no Base if the product's time drifts too much.
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
