package stat

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	gonum "gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/epbench/epbench/tune/record"
)

// MedianRatio is exp of the median of a - b, paired logarithms of times from the same
// rounds, with the interval of closeInterval: rounds are the independent draws, not
// single readings. Differences within a round are free of what disturbed the whole round,
// which the ratio of two medians is not. len(a) must equal len(b). The percentile
// bootstrap was dropped: of ten rounds its interval covered 0.92 to 0.94 where it said
// 0.95.
func MedianRatio(a, b []float64) record.Interval {
	diff := make([]float64, len(a))
	for i := range a {
		diff[i] = a[i] - b[i]
	}
	i := interpolatedMedian(diff)
	return record.Interval{Mid: math.Exp(i.Mid), Low: math.Exp(i.Low), High: math.Exp(i.High)}
}

// resamples of a bootstrap: the ends of a 95 % interval then vary by less than
// a tenth of its width.
const resamples = 1000

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

// interpolatedMedian is the median of xs with the interval of MedianInterval, interpolated
// between order statistics so that it covers 95 % and not up to 98 (Hettmansperger and
// Sheather 1986): what decides must not be wider than it says. Below six values no two order statistics cover 95 %: the interval is Student's,
// with the standard error of the median of normal data. Its ends are NaN below two.
func interpolatedMedian(xs []float64) record.Interval {
	sorted := slices.Sorted(slices.Values(xs))
	n := len(sorted)
	out := record.Interval{Mid: sortedQuantile(sorted, 0.5), Low: math.NaN(), High: math.NaN()}
	switch {
	case n < 2:
	case n < 6:
		half := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975) * math.Sqrt(math.Pi/2/float64(n)) * gonum.StdDev(sorted, nil)
		out.Low, out.High = out.Mid-half, out.Mid+half
	default:
		d, share := medianRank(n)
		inner := min(d+1, n-1-d)
		out.Low = sorted[d] + share*(sorted[inner]-sorted[d])
		out.High = sorted[n-1-d] - share*(sorted[n-1-d]-sorted[n-1-inner])
	}
	return out
}

// medianRank is the rank d, from 0, of the last order statistic below a median's 95 %
// interval of n values, and how far from it towards the next one the interval begins.
func medianRank(n int) (d int, share float64) {
	heads := distuv.Binomial{N: float64(n), P: 0.5}
	covers := func(d int) float64 { return 1 - 2*heads.CDF(float64(d)) }
	for covers(d+1) >= 0.95 {
		d++
	}
	over := (covers(d) - 0.95) / (covers(d) - covers(d+1))
	k := float64(d + 1) // its rank from 1
	return d, (float64(n) - k) * over / (k + (float64(n)-2*k)*over)
}
