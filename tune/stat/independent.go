package stat

import (
	"cmp"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/record"
)

// UpperP returns the one-sided p-value of an effect x with standard error se.
func UpperP(x, se float64) float64 {
	if se == 0 {
		if x > 0 {
			return 0
		}
		return 1
	}
	return 0.5 * math.Erfc(x/(se*math.Sqrt2))
}

// BenjaminiHochberg reports which p-values are significant at a false discovery rate of at most q (Benjamini and
// Hochberg 1995). It ignores NaN.
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

const discovery = 0.05

// A BandedRatio compares two programs A and B. Ratio is B's time divided by A's time.
type BandedRatio struct {
	Ratio Estimate
	Band  float64
}

// JudgeAll returns how B compares with A in each of many comparisons. It keeps the share of false differences below
// `discovery`.
func JudgeAll(all []BandedRatio) []record.Verdict {
	ps := make([]float64, len(all))
	for i, c := range all {
		beyond := math.Abs(math.Log(c.Ratio.Mid)) - math.Log1p(c.Band)
		ps[i] = min(1, 2*UpperP(beyond, c.Ratio.StdErr()))
	}
	sure := BenjaminiHochberg(ps, discovery)
	out := make([]record.Verdict, len(all))
	for i, c := range all {
		out[i] = Judge(inverse(c.Ratio.Interval), c.Band)
		if differ := out[i] == record.Faster || out[i] == record.Slower; differ && !sure[i] {
			out[i] = record.Undecided
		}
	}
	return out
}

// SessionsFor returns how many sessions give an interval whose ends are at most `half` away from its middle. It returns
// most+1 if more than `most` sessions are needed, or if e has only one session.
func (e Estimate) SessionsFor(half float64, most int) int {
	if e.Sessions < 2 {
		return most + 1
	}
	deviation := normal95 * e.StdErr() * math.Sqrt(float64(e.Sessions)) / student(e.Sessions)
	for n := e.Sessions; n <= most; n++ {
		if student(n)*deviation <= half*math.Sqrt(float64(n)) {
			return n
		}
	}
	return most + 1
}

// RatioReach returns how far the interval of a ratio reaches above 1 if both programs are equally fast. Each program
// has `sessions` sessions, at least 2. `spread` is the standard deviation of the sessions' log times.
func RatioReach(sessions int, spread float64) float64 {
	return math.Expm1(student(sessions) * spread * math.Sqrt(2/float64(sessions)))
}

// DecidedBand returns the smallest band with which Judge returns Same in most comparisons of two equally fast programs.
// See RatioReach.
func DecidedBand(sessions int, spread float64) float64 {
	far := 1 + RatioReach(sessions, spread)
	return far*far - 1
}

func inverse(i record.Interval) record.Interval {
	return record.Interval{Mid: 1 / i.Mid, Low: 1 / i.High, High: 1 / i.Low}
}
