package stat

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/epbench/epbench/tune/record"
)

// resamples of a bootstrap: the ends of a 95 % interval then vary by less than
// a tenth of its width.
const resamples = 1000

// MedianRatio is exp of the median of a - b, paired logarithms of times from
// the same rounds, with its percentile bootstrap interval over pairs: rounds
// are the independent draws, not single readings (Efron 1979). Differences
// within a round are free of what disturbed the whole round, which the ratio
// of two medians is not. Equal seeds give equal intervals. len(a) must equal
// len(b).
func MedianRatio(a, b []float64, seed uint64) record.Interval {
	diff := make([]float64, len(a))
	for i := range a {
		diff[i] = a[i] - b[i]
	}
	out := record.Interval{Mid: math.Exp(Median(diff)), Low: math.NaN(), High: math.NaN()}
	if len(diff) < 2 {
		return out
	}
	draw := newResampler(diff)
	rng := rand.New(rand.NewPCG(seed, uint64(len(diff))))
	resample(&out, func() float64 { return draw.median(rng) })
	return out
}

// resample sets the ends of the interval of a ratio whose logarithm is drawn again
// and again, and returns the draws.
func resample(i *record.Interval, draw func() float64) []float64 {
	stats := make([]float64, resamples)
	for k := range stats {
		stats[k] = draw()
	}
	slices.Sort(stats)
	i.Low, i.High = math.Exp(sortedQuantile(stats, 0.025)), math.Exp(sortedQuantile(stats, 0.975))
	return stats
}

// resampler draws values with replacement.
type resampler struct {
	sorted []float64
	rank   []int   // of each value in sorted
	counts []int32 // how often the last draw took each of sorted
}

func newResampler(xs []float64) resampler {
	n := len(xs)
	r := resampler{make([]float64, n), make([]int, n), make([]int32, n)}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(xs[i], xs[j]) })
	for k, i := range order {
		r.sorted[k], r.rank[i] = xs[i], k
	}
	return r
}

// median draws as many values as there are and returns their median. Counting
// how often each was drawn, and walking to the middle, takes a tenth of the
// time of sorting the draws.
func (r resampler) median(rng *rand.Rand) float64 {
	n := len(r.sorted)
	clear(r.counts)
	for range n {
		r.counts[r.rank[rng.IntN(n)]]++
	}
	lower, i, seen := -1, 0, 0
	for ; seen <= n/2; i++ {
		if seen += int(r.counts[i]); lower < 0 && seen > (n-1)/2 {
			lower = i
		}
	}
	return (r.sorted[lower] + r.sorted[i-1]) / 2
}
