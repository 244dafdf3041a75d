package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	gonum "gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/epbench/epbench/tune/record"
)

// confidence is the probability with which an interval contains the true value.
const confidence = 0.95

// An Estimate is a value with its 95 % interval. It is computed from times of many rounds. In a round, every config under
// test runs once. docs/intervals.md derives the formulas.
//
// Rounds belong to sessions. In a session, memory is laid out once. Times differ from session to session, because other
// memory addresses make calls faster or slower.
type Estimate struct {
	record.Interval
	Rounds      int
	Sessions    int     // number of sessions; if it is 1, the interval does not cover differences between sessions
	Correlation float64 // correlation of one round with the next in a session, from 0 to 1
	Range       float64 // difference between the 95 % and the 5 % quantile of the values of all rounds, as logarithms
}

// Exactly returns the estimate for a time divided by itself: 1, without error.
func Exactly(rounds int) Estimate { return Estimate{Interval: record.One, Rounds: rounds, Sessions: 1} }

// A Part holds consecutive rounds of one session, in which both A and B were measured. A[i] and B[i] are the logarithms
// of the two times in round i.
type Part struct {
	Session int
	A, B    []float64
}

// Ratio estimates the ratio A/B of two times. It uses the ratio in each round, so that a disturbance that slows both has
// no effect. All parts of a session have equal weight.
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

// IndependentRatio estimates the ratio a/b of two times that were measured in different sessions. a[i] and b[i] hold the
// logarithms of the times in session i. A side with only one session does not show how much times differ from session to
// session. For such a side, `between` is the standard deviation of these differences.
func IndependentRatio(a, b [][]float64, between float64) Estimate {
	sa, sb := seriesOf(a), seriesOf(b)
	r := correlation(slices.Concat(sa, sb)) // both sides were measured on one machine
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

// seriesOf returns a series for each session that has values.
func seriesOf(sessions [][]float64) []series {
	var out []series
	for i, xs := range sessions {
		if len(xs) > 0 {
			out = append(out, series{i, xs})
		}
	}
	return out
}

// MedianInterval returns the median of the values xs, with its 95 % interval. The values are from one session, in the
// order in which they were measured. If there is only one value, both ends of the interval are that value.
func MedianInterval(xs []float64) record.Interval {
	if len(xs) == 1 {
		return record.Interval{Mid: xs[0], Low: xs[0], High: xs[0]}
	}
	out := median(slices.Sorted(slices.Values(xs)), 0)
	out.widen(correlationFactor(correlation([]series{{xs: xs}})), 0)
	return out.Interval
}

// GeoMean returns the geometric mean of ratios, with its 95 % interval. It assumes that the errors of the ratios are
// independent. If there are no ratios, the result is NaN.
func GeoMean(ratios []record.Interval) record.Interval {
	var mid, low, high float64
	for _, r := range ratios {
		m := math.Log(r.Mid)
		mid, low, high = mid+m, math.Hypot(low, m-math.Log(r.Low)), math.Hypot(high, math.Log(r.High)-m)
	}
	n := float64(len(ratios))
	return record.Interval{Mid: math.Exp(mid / n), Low: math.Exp((mid - low) / n), High: math.Exp((mid + high) / n)}
}

// StdErr returns the standard error of the logarithm of a ratio. It is computed from both ends of the interval, because
// one end can be three times as far from the middle as the other.
func (e Estimate) StdErr() float64 { return math.Log(e.High/e.Low) / 2 / normal95 }

// normal95 is half the width of a 95 % interval of normal data, in standard errors.
const normal95 = 1.96

// Differ reports whether two ratios differ by more than their errors explain: by more than 1.96 standard errors of their
// difference.
func Differ(a, b record.Interval) bool {
	if a.Mid > b.Mid {
		a, b = b, a
	}
	return math.Log(b.Mid/a.Mid) > math.Hypot(math.Log(a.High/a.Mid), math.Log(b.Mid/b.Low))
}

// Cover widens the interval, if necessary, so that it contains x.
func (e *Estimate) Cover(x float64) {
	e.Low, e.High = min(e.Low, x), max(e.High, x)
}

// AddSession widens an interval from one session, so that it also covers differences between sessions. `spread` is the
// standard deviation of these differences, which was estimated from `sessions` sessions.
func (e *Estimate) AddSession(spread float64, sessions int) {
	add := student(sessions) * spread
	e.Low = e.Mid * math.Exp(-math.Hypot(math.Log(e.Mid/e.Low), add))
	e.High = e.Mid * math.Exp(math.Hypot(math.Log(e.High/e.Mid), add))
}

// exp returns the estimate of a ratio from the estimate of its logarithm.
func exp(e Estimate) Estimate {
	e.Mid, e.Low, e.High = math.Exp(e.Mid), math.Exp(e.Low), math.Exp(e.High)
	return e
}

// widen multiplies the distance of each end from the middle by factor. Then it adds an independent error to this
// distance.
func (e *Estimate) widen(factor, add float64) {
	e.Low = e.Mid - math.Hypot(factor*(e.Mid-e.Low), add)
	e.High = e.Mid + math.Hypot(factor*(e.High-e.Mid), add)
}

// series holds values of one session in the order in which they were measured.
type series struct {
	session int
	xs      []float64
}

// estimate returns the mean over sessions of their middle values, with its 95 % interval.
func estimate(all []series) Estimate {
	all = slices.DeleteFunc(slices.Clone(all), func(s series) bool { return len(s.xs) == 0 })
	return estimateWith(all, correlation(all))
}

// estimateWith does the same as estimate, for a known correlation r of one round with the next. For several sessions, the
// interval is the wider one of two. The first is Student's interval of the mean of the sessions' middle values. The
// second follows from the intervals of the single sessions.
func estimateWith(all []series, r float64) Estimate {
	if len(all) == 0 {
		return Estimate{Interval: record.Interval{Mid: math.NaN(), Low: math.NaN(), High: math.NaN()}}
	}
	out := Estimate{Correlation: r, Range: rangeOf(all)}
	var mids, below, above []float64 // [session] the middle value, and the distances of the interval's ends from it
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

// rangeOf returns the difference between the 95 % and the 5 % quantile of all values.
func rangeOf(all []series) float64 {
	var xs []float64
	for _, s := range all {
		xs = append(xs, s.xs...)
	}
	slices.Sort(xs)
	return sortedQuantile(xs, 0.95) - sortedQuantile(xs, 0.05)
}

// known returns the widths that are not NaN.
func known(widths []float64) []float64 { return slices.DeleteFunc(widths, math.IsNaN) }

// student returns half the width of the 95 % interval of a mean of n values, in standard errors.
func student(n int) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile((1 + confidence) / 2)
}

const (
	// fewRounds is the least number of values whose smallest and largest enclose the true median with a probability of
	// at least 95 %.
	fewRounds = 6

	// leastSpread is the least standard deviation that the logarithm of a ratio is assumed to have. In recorded rounds of
	// GPUs it was at least 0.003.
	leastSpread = 0.002
)

// middle returns the median of the values of one session. Its interval assumes that rounds are independent. If the clock
// is coarse, middle returns the mean instead, because the median would only change by whole ticks of the clock.
func middle(xs []float64) Estimate {
	sorted := slices.Sorted(slices.Values(xs))
	tick := tickOf(sorted)
	if tick == 0 {
		return median(sorted, leastSpread)
	}
	mean, deviation := gonum.MeanStdDev(sorted, nil)
	out := Estimate{Interval: record.Interval{Mid: mean, Low: mean, High: mean}}
	out.widen(1, math.Hypot(student(len(xs))*deviation/math.Sqrt(float64(len(xs))), tickError(tick, deviation)))
	return out
}

// median returns the median of sorted values, with its interval for independent values. Each end of the interval lies
// between two neighbouring values, at a place that is interpolated (Hettmansperger and Sheather 1986). With less than
// fewRounds values, the interval is Student's, with a standard deviation of at least `spread`. With less than two values,
// the ends are NaN.
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

// medianRank returns where the 95 % interval of the median of n sorted values begins: at a place between the values with
// the indices d and d+1. `share` says how far it is on the way from the first to the second, from 0 to 1.
func medianRank(n int) (d int, share float64) {
	heads := distuv.Binomial{N: float64(n), P: 0.5}
	covers := func(d int) float64 { return 1 - 2*heads.CDF(float64(d)) }
	for covers(d+1) >= confidence {
		d++
	}
	over := (covers(d) - confidence) / (covers(d) - covers(d+1))
	k := float64(d + 1) // the number of the value, counted from 1
	return d, (float64(n) - k) * over / (k + (float64(n)-2*k)*over)
}

// tickShare decides whether a clock is coarse. It is coarse if the number of different values is at most this share of
// the number of all values.
const tickShare = 0.5

// tickOf returns the tick of a coarse clock: the least difference between two values. It returns 0 if the clock is not
// coarse, or if all values are equal.
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

// equalReadings is the largest difference of two logarithms that rounding alone can cause. Such values count as equal.
const equalReadings = 1e-9

// tickError returns the largest error that a clock with this tick adds to a mean. The larger the standard deviation of the
// values is, in ticks, the smaller is the error (Widrow and Kollár 2008, section 9).
func tickError(tick, deviation float64) float64 {
	return tick / math.Pi * math.Exp(-2*math.Pow(math.Pi*deviation/tick, 2))
}
