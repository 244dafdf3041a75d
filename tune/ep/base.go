package ep

import (
	"math"
	"slices"
)

// maxSharedDrift is the most that the product alone may differ from round to round for configs to
// share its readings: the median deviation over the median. Without a power cap it was
// 0.4 % at most on H200s, under one 0.5 to 3 %.
const maxSharedDrift = 0.005

// ShareBase gives configs that ran in the same rounds one Base: of each round and rank the
// lower quartile of what they read of the product alone, the least of up to four. It is
// the same work for all of them, but its reading is not: the same launches took 71 or
// 80 us on an H200, a whole round of them one or the other, and more often the other
// behind calls on 16 SMs. With a reading of their own such calls looked cheap.
//
// Where clocks drift, each config keeps its own reading: it is of the same moment as the
// time of both. Of fewer rounds than others have, a config takes the first.
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

// baseOf is the Base of round k, by rank.
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

// drift is the median deviation of rounds from their median, as a share of it, of the
// rank with the largest.
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

// middle sorts values and returns their median, the lower of two.
func lowerMedian(values []float64) float64 {
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
