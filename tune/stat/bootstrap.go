package stat

import (
	"math"
	"math/rand/v2"

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
	rng := rand.New(rand.NewPCG(seed, uint64(len(diff))))
	draw, stats := make([]float64, len(diff)), make([]float64, resamples)
	for k := range stats {
		for i := range draw {
			draw[i] = diff[rng.IntN(len(diff))]
		}
		stats[k] = medianInPlace(draw)
	}
	out.Low, out.High = math.Exp(Quantile(stats, 0.025)), math.Exp(Quantile(stats, 0.975))
	return out
}
