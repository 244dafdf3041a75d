// Package stat computes medians, intervals and verdicts from noisy times. In each round, every config under test runs
// once. Times are compared round by round, because a disturbance often slows all configs of a round.
package stat

import (
	"math"
	"slices"

	"github.com/epbench/epbench/tune/record"
)

// Quantile returns the p-quantile of xs (Hyndman and Fan 1996, type 7), or NaN if xs is empty.
func Quantile(xs []float64, p float64) float64 {
	return sortedQuantile(slices.Sorted(slices.Values(xs)), p)
}

func sortedQuantile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := p * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Median returns the median of xs, or NaN if xs is empty.
func Median(xs []float64) float64 { return medianInPlace(slices.Clone(xs)) }

func medianInPlace(xs []float64) float64 {
	slices.Sort(xs)
	return sortedQuantile(xs, 0.5)
}

// Spread returns a robust estimate of the standard deviation of xs, from the median absolute deviation.
func Spread(xs []float64) float64 {
	m := Median(xs)
	dev := make([]float64, len(xs))
	for i, x := range xs {
		dev[i] = math.Abs(x - m)
	}
	return 1.4826 * medianInPlace(dev)
}

// StdErr returns the standard error of the median of xs, for normally distributed values.
func StdErr(xs []float64) float64 {
	return math.Sqrt(math.Pi/2/float64(len(xs))) * Spread(xs)
}

// Midmean returns the mean of the middle half of xs (Tukey 1977). Outliers have no effect.
func Midmean(xs []float64) float64 {
	sorted := slices.Sorted(slices.Values(xs))
	cut := len(sorted) / 4
	sum := 0.0
	for _, x := range sorted[cut : len(sorted)-cut] {
		sum += x
	}
	return sum / float64(len(sorted)-2*cut)
}

// TimesOf returns the median and the 10 % and 90 % quantiles of xs.
func TimesOf(xs []float64) record.Times {
	return record.Times{Median: Median(xs), P10: Quantile(xs, 0.1), P90: Quantile(xs, 0.9)}
}

// Logs returns the natural logarithms of xs.
func Logs(xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = math.Log(x)
	}
	return out
}
