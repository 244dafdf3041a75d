package stat

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// Outliers returns the number of readings above the upper outer fence, three quartile
// ranges over the third quartile (Tukey 1977). They are counted, not removed: medians resist
// them.
func Outliers(xs []float64) int {
	q1, q3 := Quantile(xs, 0.25), Quantile(xs, 0.75)
	n := 0
	for _, x := range xs {
		if x > q3+3*(q3-q1) {
			n++
		}
	}
	return n
}

// Drift returns the relative change of the median from the first to the last third of a series
// in time order, 0 below nine readings.
func Drift(xs []float64) float64 {
	third := len(xs) / 3
	if third < 3 {
		return 0
	}
	return Median(xs[len(xs)-third:])/Median(xs[:third]) - 1
}

// Warnings and ClockWarning warn above these limits.
const (
	outlierShare = 0.1  // of the readings
	driftLimit   = 0.05 // of the median
	clockDrop    = 0.05 // of the fastest clock seen
)

// Warnings returns warnings about outliers and drift of the seconds xs, which are in time order.
func Warnings(xs []float64) []string {
	var out []string
	if n := Outliers(xs); len(xs) >= 9 && float64(n) > outlierShare*float64(len(xs)) {
		out = append(out, fmt.Sprintf("outliers: %d of %d rounds lie far above the rest; something else uses this machine", n, len(xs)))
	}
	if d := Drift(xs); math.Abs(d) > driftLimit {
		out = append(out, fmt.Sprintf("drift: the last third of the rounds is %+.1f %% against the first; let the machine settle", 100*d))
	}
	return out
}

// Autocorrelation of a series in time order: how alike neighbours are, from -1 to 1; 0
// below ten readings and for a constant series. Readings are ranked first, so that a
// spike counts like any other reading.
func Autocorrelation(xs []float64) float64 {
	if len(xs) < 10 {
		return 0
	}
	rank := centredRanks(xs)
	var own, next float64
	for i, r := range rank {
		own += r * r
		if i > 0 {
			next += r * rank[i-1]
		}
	}
	if own == 0 {
		return 0
	}
	return next / own
}

// centredRanks are the ranks of a series, of mean 0. Equal readings share the mean of
// their ranks: in order of time they would look like a trend.
func centredRanks(xs []float64) []float64 {
	sorted, ranks := slices.Sorted(slices.Values(xs)), make([]float64, len(xs))
	for i, x := range xs {
		below := sort.SearchFloat64s(sorted, x)
		upTo := sort.Search(len(sorted), func(k int) bool { return sorted[k] > x })
		ranks[i] = float64(below+upTo-len(xs)) / 2
	}
	return ranks
}

// CorrelationWarning says that the differences of paired logarithms of times resemble
// their neighbours more than chance does in one series of forty; "" where they do not.
// An interval takes rounds for independent: it is then too narrow, by the root of
// (1 + r) / (1 - r) for a correlation r that dies out geometrically.
func CorrelationWarning(a, b []float64) string {
	diff := make([]float64, len(a))
	for i := range a {
		diff[i] = a[i] - b[i]
	}
	r := Autocorrelation(diff)
	if r <= 2/math.Sqrt(float64(len(diff))) {
		return ""
	}
	return fmt.Sprintf("correlation: neighbouring rounds differ alike (%.2f), so that the interval is too narrow by a factor of about %.1f; something periodic disturbs this machine", r, math.Sqrt((1+r)/max(1-r, 0.01)))
}

// ClockWarning warns if a clock fell from the highest of its readings in MHz, which are in time
// order; "" if it did not.
func ClockWarning(mhz []float64) string {
	if len(mhz) == 0 {
		return ""
	}
	top, low := slices.Max(mhz), slices.Min(mhz)
	if top <= 0 || low >= top*(1-clockDrop) {
		return ""
	}
	return fmt.Sprintf("throttle: the SM clock fell from %.0f to %.0f MHz; cool the machine or lower its power limit", top, low)
}
