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

// MedianInterval is the median of xs with a distribution-free 95 % interval
// between two order statistics (David and Nagaraja 2003, section 7.1), whose
// ranks come from the binomial distribution. Below six values no pair of them
// covers 95 %, and the interval is the whole range.
func MedianInterval(xs []float64) record.Interval {
	sorted := slices.Sorted(slices.Values(xs))
	n := len(sorted)
	if n == 0 {
		return record.Interval{Mid: math.NaN(), Low: math.NaN(), High: math.NaN()}
	}
	k := binomialRank(n)
	return record.Interval{Mid: sortedQuantile(sorted, 0.5), Low: sorted[k], High: sorted[n-1-k]}
}

// binomialRank is the rank, from 0, of the interval's lower end: the largest k
// with P(Binomial(n, 1/2) <= k) <= 2.5 %, or 0.
func binomialRank(n int) int {
	heads := distuv.Binomial{N: float64(n), P: 0.5}
	k := 0
	for heads.CDF(float64(k)) <= 0.025 {
		k++
	}
	return max(k-1, 0)
}

// Ratio is the ratio of the medians of two independent samples with its
// interval and the standard error of its logarithm.
type Ratio struct {
	record.Interval
	StdErr float64 // of log ratio, NaN below two values on a side
}

// RatioOfMedians is median(a) / median(b) for samples taken in different
// sessions. The interval is by bootstrap, each side resampled on its own
// (Efron 1979). The error is the root mean square of the bootstrap's, which
// holds for any shape but is itself unsure on few values, and of the one that
// the spread gives, which is steady but takes the values for normal. Equal
// seeds give equal intervals. All values must be above 0.
func RatioOfMedians(a, b []float64, seed uint64) Ratio {
	out := Ratio{record.Interval{Mid: Median(a) / Median(b), Low: math.NaN(), High: math.NaN()}, math.NaN()}
	if len(a) < 2 || len(b) < 2 {
		return out
	}
	la, lb := slices.Sorted(slices.Values(logs(a))), slices.Sorted(slices.Values(logs(b)))
	drawA, drawB := newResampler(la), newResampler(lb)
	rng := rand.New(rand.NewPCG(seed, uint64(len(a))<<32|uint64(len(b))))
	stats := resample(&out.Interval, func() float64 { return drawA.median(rng) - drawB.median(rng) })
	out.StdErr = math.Hypot(gonum.StdDev(stats, nil), math.Hypot(StdErr(la), StdErr(lb))) / math.Sqrt2
	return out
}

func logs(xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = math.Log(x)
	}
	return out
}

// UpperP is the probability that a normal variable of standard error se is at
// least x above its mean: the one-sided p-value of an effect x. Without noise
// it is 0 for a positive x and 1 otherwise.
func UpperP(x, se float64) float64 {
	if se == 0 {
		if x > 0 {
			return 0
		}
		return 1
	}
	return 0.5 * math.Erfc(x/(se*math.Sqrt2))
}

// BenjaminiHochberg says which of the tests with p-values ps may be called
// significant so that at most a share q of those calls is expected to be false
// (Benjamini and Hochberg 1995). NaN is never significant and not counted.
func BenjaminiHochberg(ps []float64, q float64) []bool {
	order := []int{}
	for i, p := range ps {
		if !math.IsNaN(p) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(ps[i], ps[j]) })
	last := -1
	for rank, i := range order {
		if ps[i] <= q*float64(rank+1)/float64(len(order)) {
			last = rank
		}
	}
	out := make([]bool, len(ps))
	for _, i := range order[:last+1] {
		out[i] = true
	}
	return out
}

// discovery is the share of claimed differences that may be false, over all
// comparisons judged together.
const discovery = 0.05

// SessionComparison is a comparison of two samples from different sessions.
type SessionComparison struct {
	Ratio Ratio   // time of B over time of A
	Band  float64 // least relative difference that is called one
}

// JudgeAll says how B compares with A in many comparisons at once. A
// difference is called only where it exceeds the band by more than chance
// explains, controlled over all comparisons (Benjamini and Hochberg 1995):
// among a hundred comparisons of equal programs some intervals exclude 1.
func JudgeAll(all []SessionComparison) []record.Verdict {
	ps := make([]float64, len(all))
	for i, c := range all {
		beyond := math.Abs(math.Log(c.Ratio.Mid)) - math.Log1p(c.Band)
		ps[i] = min(1, 2*UpperP(beyond, c.Ratio.StdErr))
	}
	sure := BenjaminiHochberg(ps, discovery)
	out := make([]record.Verdict, len(all))
	for i, c := range all {
		switch {
		case sure[i] && c.Ratio.Mid > 1:
			out[i] = record.Slower
		case sure[i]:
			out[i] = record.Faster
		case Judge(c.Ratio.Interval, c.Band) == record.Same: // whichever way the ratio is taken
			out[i] = record.Same
		default:
			out[i] = record.Undecided
		}
	}
	return out
}
