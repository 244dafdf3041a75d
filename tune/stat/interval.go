package stat

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
	gonum "gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/epbench/epbench/tune/record"
)

const confidence = 0.95

// An Estimate is a value with its 95 % interval, from times of many rounds. In a round, every config under test runs
// once. docs/intervals.md derives the formulas.
//
// Rounds belong to sessions. Each session lays out memory anew, which changes times.
type Estimate struct {
	record.Interval
	Rounds      int
	Sessions    int     // if 1, the interval does not cover differences between sessions
	Correlation float64 // of consecutive rounds, from 0 to 1
	Range       float64 // of the rounds' logarithms: 95 % quantile minus 5 % quantile
}

// Exactly returns the estimate for a time divided by itself: 1, without error.
func Exactly(rounds int) Estimate { return Estimate{Interval: record.One, Rounds: rounds, Sessions: 1} }

// A Part holds consecutive rounds of one session. A[i] and B[i] are the logarithms of two times in round i.
type Part struct {
	Session int
	A, B    []float64
}

// Ratio estimates the ratio A/B of two times. It uses the ratio in each round, so that disturbances of a round have no
// effect. All parts of a session have equal weight.
func Ratio(parts ...Part) Estimate {
	diffs := make([]series, len(parts))
	for i, p := range parts {
		diffs[i] = series{p.Session, make([]float64, len(p.A))}
		floats.SubTo(diffs[i].xs, p.A, p.B)
	}
	return exp(estimate(diffs))
}

// PairedRatio returns the interval of a/b, where a and b are logarithms of times in the same rounds of one session.
func PairedRatio(a, b []float64) record.Interval { return Ratio(Part{A: a, B: b}).Interval }

// IndependentRatio estimates the ratio a/b of two times from different sessions. a[i] and b[i] hold the logarithms of
// the times in session i. `between` is the standard deviation of differences between sessions. If a or b has only one
// session, `between` widens its interval.
func IndependentRatio(a, b [][]float64, between float64) Estimate {
	sa, sb := seriesOf(a), seriesOf(b)
	r := correlation(slices.Concat(sa, sb)) // one value for both, because both were measured on one machine
	x, y := estimateWith(sa, r), estimateWith(sb, r)
	for _, side := range []*Estimate{&x, &y} {
		if side.Sessions == 1 {
			side.widen(1, normal95*between)
		}
	}
	out := Estimate{Rounds: min(x.Rounds, y.Rounds), Sessions: min(x.Sessions, y.Sessions), Correlation: r, Range: x.Range + y.Range}
	out.Mid = x.Mid - y.Mid
	out.Low = out.Mid - math.Hypot(x.Mid-x.Low, y.High-y.Mid)
	out.High = out.Mid + math.Hypot(x.High-x.Mid, y.Mid-y.Low)
	return exp(out)
}

func seriesOf(sessions [][]float64) []series {
	var out []series
	for i, xs := range sessions {
		if len(xs) > 0 {
			out = append(out, series{i, xs})
		}
	}
	return out
}

// MedianInterval returns the median of xs, with its 95 % interval. xs holds values of one session in time order.
func MedianInterval(xs []float64) record.Interval {
	if len(xs) == 1 {
		return record.Interval{Mid: xs[0], Low: xs[0], High: xs[0]}
	}
	out := median(sorted(xs), 0)
	out.widen(correlationFactor(correlation([]series{{xs: xs}})), 0)
	return out.Interval
}

// GeoMean returns the geometric mean of ratios with independent errors, and its 95 % interval. Without ratios it
// returns NaN.
func GeoMean(ratios []record.Interval) record.Interval {
	var mid, low, high float64
	for _, r := range ratios {
		m := math.Log(r.Mid)
		mid, low, high = mid+m, math.Hypot(low, m-math.Log(r.Low)), math.Hypot(high, math.Log(r.High)-m)
	}
	n := float64(len(ratios))
	return record.Interval{Mid: math.Exp(mid / n), Low: math.Exp((mid - low) / n), High: math.Exp((mid + high) / n)}
}

// StdErr returns the standard error of the logarithm of a ratio, from both ends of the interval.
func (e Estimate) StdErr() float64 { return math.Log(e.High/e.Low) / 2 / normal95 }

// normal95 is half the width of a 95 % interval of normal data, in standard errors.
const normal95 = 1.96

// Differ reports whether two ratios differ by more than 1.96 standard errors of their difference.
func Differ(a, b record.Interval) bool {
	if a.Mid > b.Mid {
		a, b = b, a
	}
	return math.Log(b.Mid/a.Mid) > math.Hypot(math.Log(a.High/a.Mid), math.Log(b.Mid/b.Low))
}

// Cover widens the interval so that it contains x.
func (e *Estimate) Cover(x float64) {
	e.Low, e.High = min(e.Low, x), max(e.High, x)
}

// AddSession widens the interval of a single session, so that it covers differences between sessions. `spread` is the
// standard deviation of these differences, estimated from `sessions` sessions.
func (e *Estimate) AddSession(spread float64, sessions int) {
	add := student(sessions) * spread
	e.Low = e.Mid * math.Exp(-math.Hypot(math.Log(e.Mid/e.Low), add))
	e.High = e.Mid * math.Exp(math.Hypot(math.Log(e.High/e.Mid), add))
}

func exp(e Estimate) Estimate {
	e.Mid, e.Low, e.High = math.Exp(e.Mid), math.Exp(e.Low), math.Exp(e.High)
	return e
}

// widen multiplies the distances of both ends from the middle by `factor`, and adds an independent error `add` to each.
func (e *Estimate) widen(factor, add float64) {
	e.Low = e.Mid - math.Hypot(factor*(e.Mid-e.Low), add)
	e.High = e.Mid + math.Hypot(factor*(e.High-e.Mid), add)
}

// series holds values of one session in time order.
type series struct {
	session int
	xs      []float64
}

func estimate(all []series) Estimate {
	all = slices.DeleteFunc(slices.Clone(all), func(s series) bool { return len(s.xs) == 0 })
	return estimateWith(all, correlation(all))
}

// estimateWith returns the mean of the sessions' middle values. r is the known correlation of consecutive rounds. For
// several sessions, estimateWith takes the wider of two intervals: Student's interval of the middle values, and an
// interval computed from the sessions' own intervals.
func estimateWith(all []series, r float64) Estimate {
	if len(all) == 0 {
		return Estimate{Interval: record.Interval{Mid: math.NaN(), Low: math.NaN(), High: math.NaN()}}
	}
	out := Estimate{Correlation: r, Range: rangeOf(all)}
	var mids, below, above []float64 // [session]
	for i := 0; i < len(all); {
		n := i
		var mid, low, high float64
		for ; n < len(all) && all[n].session == all[i].session; n++ {
			one := middle(all[n].xs)
			one.widen(correlationFactor(r), 0)
			mid, low, high = mid+one.Mid, math.Hypot(low, one.Mid-one.Low), math.Hypot(high, one.High-one.Mid)
			out.Rounds += len(all[n].xs)
		}
		parts := float64(n - i)
		mids, below, above = append(mids, mid/parts), append(below, low/parts), append(above, high/parts)
		i = n
	}
	out.Sessions = len(mids)
	n, half := float64(len(mids)), 0.0
	out.Mid = gonum.Mean(mids, nil)
	if n > 1 {
		half = student(len(mids)) * gonum.StdDev(mids, nil) / math.Sqrt(n)
		below, above = known(below), known(above)
	}
	out.Low, out.High = out.Mid-max(half, floats.Norm(below, 2)/n), out.Mid+max(half, floats.Norm(above, 2)/n)
	return out
}

func rangeOf(all []series) float64 {
	var xs []float64
	for _, s := range all {
		xs = append(xs, s.xs...)
	}
	slices.Sort(xs)
	return sortedQuantile(xs, 0.95) - sortedQuantile(xs, 0.05)
}

func known(widths []float64) []float64 { return slices.DeleteFunc(widths, math.IsNaN) }

func student(n int) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile((1 + confidence) / 2)
}

const (
	// fewRounds is the least number of values whose range contains the true median with a probability of 95 %.
	fewRounds = 6

	// leastSpread is the least assumed standard deviation of a ratio's logarithm.
	leastSpread = 0.002
)

// middle returns the median of a session's values, with an interval for independent values. For a coarse clock it
// returns the mean, because the median would change only by whole ticks.
func middle(xs []float64) Estimate {
	ascending := sorted(xs)
	tick := tickOf(ascending)
	if tick == 0 {
		return median(ascending, leastSpread)
	}
	mean, deviation := gonum.MeanStdDev(ascending, nil)
	out := Estimate{Interval: record.Interval{Mid: mean, Low: mean, High: mean}}
	out.widen(1, math.Hypot(student(len(xs))*deviation/math.Sqrt(float64(len(xs))), tickError(tick, deviation)))
	return out
}

// median returns the median of sorted values, with an interval for independent values (Hettmansperger and Sheather
// 1986). For fewer than fewRounds values, it uses Student's interval and a standard deviation of at least `spread`. For
// fewer than two values, the interval's ends are NaN.
func median(sorted []float64, spread float64) Estimate {
	n := len(sorted)
	out := Estimate{Interval: record.Interval{Mid: sortedQuantile(sorted, 0.5), Low: math.NaN(), High: math.NaN()}}
	switch {
	case n < 2:
	case n < fewRounds:
		half := student(n) * math.Sqrt(math.Pi/2/float64(n)) * max(gonum.StdDev(sorted, nil), spread)
		out.Low, out.High = out.Mid-half, out.Mid+half
	default:
		d, share := medianRank(n)
		inner := min(d+1, n-1-d)
		out.Low = sorted[d] + share*(sorted[inner]-sorted[d])
		out.High = sorted[n-1-d] - share*(sorted[n-1-d]-sorted[n-1-inner])
	}
	return out
}

// medianRank returns where the 95 % interval of a median begins. Of n sorted values, it begins between value d and
// value d+1. `share` is 0 at value d and 1 at value d+1.
func medianRank(n int) (d int, share float64) {
	type rank struct {
		d     int
		share float64
	}
	if known, ok := medianRanks.Load(n); ok {
		return known.(rank).d, known.(rank).share
	}
	d, share = computeMedianRank(n)
	medianRanks.Store(n, rank{d, share})
	return d, share
}

// medianRanks holds the results of medianRank by n, because they take long to compute and searches need few of them
// very often.
var medianRanks sync.Map

func computeMedianRank(n int) (d int, share float64) {
	heads := distuv.Binomial{N: float64(n), P: 0.5}
	covers := func(d int) float64 { return 1 - 2*heads.CDF(float64(d)) }
	for covers(d+1) >= confidence {
		d++
	}
	over := (covers(d) - confidence) / (covers(d) - covers(d+1))
	k := float64(d + 1)
	return d, (float64(n) - k) * over / (k + (float64(n)-2*k)*over)
}

// A clock is coarse if the number of its different values is at most tickShare times the number of all its values.
const tickShare = 0.5

// tickOf returns the tick of a coarse clock: the least difference between two values. For a fine clock it returns 0.
func tickOf(sorted []float64) float64 {
	step, different := math.Inf(1), 1
	for i := 1; i < len(sorted); i++ {
		if d := sorted[i] - sorted[i-1]; d > equalReadings {
			different++
			step = min(step, d)
		}
	}
	if different == 1 || len(sorted) < fewRounds || float64(different) > tickShare*float64(len(sorted)) {
		return 0
	}
	return step
}

const equalReadings = 1e-9

// tickError returns the largest error that a clock with this tick adds to the mean of values with this deviation
// (Widrow and Kollár 2008, section 9).
func tickError(tick, deviation float64) float64 {
	return tick / math.Pi * math.Exp(-2*math.Pow(math.Pi*deviation/tick, 2))
}
