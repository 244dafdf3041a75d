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
	return sortedQuantile(sorted(xs), p)
}

// sorted returns a sorted copy of xs.
func sorted(xs []float64) []float64 {
	out := slices.Clone(xs)
	slices.Sort(out)
	return out
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

// medianInPlace returns the median of xs, and changes the order of xs.
func medianInPlace(xs []float64) float64 {
	if len(xs) < fewToSort || slices.ContainsFunc(xs, func(x float64) bool { return x-x != 0 }) { // NaN or infinite
		slices.Sort(xs)
		return sortedQuantile(xs, 0.5)
	}
	k := (len(xs) - 1) / 2
	selectLeast(xs, k, mostPasses)
	if len(xs)%2 == 1 {
		return xs[k]
	}
	return xs[k] + 0.5*(slices.Min(xs[k+1:])-xs[k])
}

const (
	fewToSort  = 12 // the least length for which selectLeast takes less time than slices.Sort
	mostPasses = 32 // passes of selectLeast; some orders of the values would need a pass for each value
)

// selectLeast reorders xs: xs[k] gets the value that it would have in sorted order, and the values before it are at
// most xs[k] (Hoare 1961, FIND). After `passes` passes over xs it sorts. xs holds finite values.
func selectLeast(xs []float64, k, passes int) {
	low, high := 0, len(xs)-1
	for ; low < high; passes-- {
		if passes == 0 {
			slices.Sort(xs[low : high+1])
			return
		}
		pivot := xs[k]
		i, j := low, high
		for i <= j {
			for xs[i] < pivot {
				i++
			}
			for pivot < xs[j] {
				j--
			}
			if i <= j {
				xs[i], xs[j] = xs[j], xs[i]
				i, j = i+1, j-1
			}
		}
		if j < k {
			low = i
		}
		if k < i {
			high = j
		}
	}
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
	cut := len(xs) / 4
	sum := 0.0
	for _, x := range sorted(xs)[cut : len(xs)-cut] {
		sum += x
	}
	return sum / float64(len(xs)-2*cut)
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
