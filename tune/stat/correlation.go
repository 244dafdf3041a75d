package stat

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// mostCorrelated is the largest result of correlation. A correlation of 1 would make an interval infinitely wide.
const mostCorrelated = 0.99

// correlation returns the correlation of consecutive rounds, from 0 to mostCorrelated. It corrects the bias of short
// series (Kendall 1954).
func correlation(all []series) float64 {
	var sum, weight float64
	for _, s := range all {
		n := float64(len(s.xs))
		if n < leastSeries || constant(s.xs) {
			continue
		}
		sum += n * (Autocorrelation(s.xs) + 1/n) / (1 - 3/n)
		weight += n
	}
	if weight == 0 {
		return 0
	}
	return min(max(sum/weight, 0), mostCorrelated)
}

// correlationFactor returns the factor by which correlation widens an interval (Bayley and Hammersley 1946).
func correlationFactor(r float64) float64 { return math.Sqrt((1 + r) / (1 - r)) }

func constant(xs []float64) bool { return slices.Max(xs) == slices.Min(xs) }

const leastSeries = 10

// Autocorrelation returns the rank correlation of consecutive readings, from -1 to 1. For fewer than ten readings it
// returns 0.
func Autocorrelation(xs []float64) float64 {
	if len(xs) < leastSeries {
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

// centredRanks returns the ranks of a series, with mean 0. Equal readings get the same rank.
func centredRanks(xs []float64) []float64 {
	ascending, ranks := sorted(xs), make([]float64, len(xs))
	for i, x := range xs {
		below := sort.SearchFloat64s(ascending, x)
		upTo := sort.Search(len(ascending), func(k int) bool { return ascending[k] > x })
		ranks[i] = float64(below+upTo-len(xs)) / 2
	}
	return ranks
}

// Worth returns the effective number of rounds in a session. The correlated rounds of a session give the same precision
// as this number of independent rounds.
func (e Estimate) Worth() float64 {
	return float64(e.Rounds) / float64(max(e.Sessions, 1)) * (1 - e.Correlation) / (1 + e.Correlation)
}

// An Estimate from one session cannot be trusted if its Correlation is above trustedCorrelation and its Worth is below
// leastWorth.
const (
	trustedCorrelation = 0.5
	leastWorth         = 10
)

// Unknowable returns why the interval cannot be trusted, or "".
func (e Estimate) Unknowable() string {
	if e.Sessions > 1 || e.Correlation <= trustedCorrelation || e.Worth() >= leastWorth {
		return ""
	}
	return fmt.Sprintf("neighbouring rounds are so similar (correlation %.2f) that %d rounds are worth only %.1f independent rounds: measure more rounds, or use --sessions 3", e.Correlation, e.Rounds, math.Max(e.Worth(), 1))
}
