package stat

import (
	"math"
	"math/rand/v2"
)

// resamples of a bootstrap: the ends of a 95 % interval then vary by less than
// a tenth of its width.
const resamples = 1000

// Interval is an estimate with its 95 % interval.
type Interval struct{ Mid, Lo, Hi float64 }

// Half is half the interval's width.
func (i Interval) Half() float64 { return (i.Hi - i.Lo) / 2 }

// MedianRatio is exp(median(a) - median(b)) of paired logarithms, with its
// percentile bootstrap interval over pairs: the rounds are the independent
// draws, not the single readings (Efron 1979). Equal seeds give equal
// intervals. len(a) must equal len(b).
func MedianRatio(a, b []float64, seed uint64) Interval {
	out := Interval{Mid: math.Exp(Median(a) - Median(b)), Lo: math.NaN(), Hi: math.NaN()}
	if len(a) < 2 {
		return out
	}
	rng := rand.New(rand.NewPCG(seed, uint64(len(a))))
	ra, rb := make([]float64, len(a)), make([]float64, len(a))
	stats := make([]float64, resamples)
	for k := range stats {
		for i := range ra {
			j := rng.IntN(len(a))
			ra[i], rb[i] = a[j], b[j]
		}
		stats[k] = medianInPlace(ra) - medianInPlace(rb)
	}
	out.Lo, out.Hi = math.Exp(Quantile(stats, 0.025)), math.Exp(Quantile(stats, 0.975))
	return out
}
