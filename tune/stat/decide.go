package stat

import (
	"fmt"
	"math"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// Judge returns how A compares with B. All of epbench uses this rule. gain is B's time divided by
// A's time. A is faster or slower than B if gain.Mid is beyond the band and the interval excludes
// 1. A and B are the same if the whole interval lies inside the band, ends included. A stricter
// rule, the whole interval beyond the band, was rejected: gains just above the band needed several
// times as many rounds.
func Judge(gain record.Interval, band float64) record.Verdict {
	low, high := (1-rounding)/(1+band), (1+rounding)*(1+band)
	switch {
	case gain.Low > 1 && gain.Mid > high:
		return record.Faster
	case gain.High < 1 && gain.Mid < low:
		return record.Slower
	case gain.Low >= low && gain.High <= high:
		return record.Same
	}
	return record.Undecided
}

// rounding is the relative error of a computed ratio: a ratio exactly at the end of the band may be
// computed as 1.0100000000000007.
const rounding = 1e-9

// clearBands is the number of bands that the interval of a gain must be away from 1 before a
// comparison may end early. At this distance an early end adds no false claims.
const clearBands = 3

// Clear reports whether more rounds can hardly change a verdict: the whole interval of the gain
// is far from 1.
func Clear(gain record.Interval, band float64) bool {
	far := clearBands * math.Log1p(band)
	return math.Log(gain.Low) > far || math.Log(gain.High) < -far
}

// plainSpreads is the number of spreads by which a gain must be away from 1 if its interval cannot
// be trusted. The number is large because the spread is estimated from only a few blocks of rounds.
const plainSpreads = 5

// isPlain reports whether the whole interval of a gain is so far from 1 that noise cannot explain
// the gain. spread is the A/A spread. For example, a machine that varies by 1.4 % still shows that
// a config takes a third of the default's time.
func isPlain(gain record.Interval, spread float64) bool {
	far := 1 + plainSpreads*spread
	return gain.Low > far || gain.High < 1/far
}

// AASpread returns the A/A spread for a ratio of the default to itself: max(half the width of the
// interval, |ratio-1|).
func AASpread(ratio record.Interval) float64 { return max(ratio.Half(), math.Abs(ratio.Mid-1)) }

// A Comparison is a config measured against the default, in rounds that had no part in
// choosing it.
type Comparison struct {
	Config, Default ep.Config
	Gain            Estimate // the default's time divided by the config's
	Band            record.Band
	HostBound       string // why launch parameters cannot matter here, "" if they can matter
}

// Compare decides about a config that the caller chose. The decision's config is the caller's
// config, whatever the verdict.
func Compare(m Comparison) record.Decision {
	d := record.Decision{
		Config: m.Config, Default: m.Default, Gain: m.Gain.Interval, Challenger: m.Config, ChallengerGain: m.Gain.Interval,
		Band: m.Band, Rounds: m.Gain.Rounds, Verdict: Judge(m.Gain.Interval, m.Band.Width()),
	}
	noisy := Noisy(m.Gain, m.Band)
	switch {
	case noisy != "":
		d.Cause, d.Verdict, d.Reason = record.Noisy, record.Undecided, noisy
	case m.HostBound != "":
		d.Cause, d.Verdict, d.Reason = record.HostBound, record.Same, m.HostBound
	}
	return d
}

// Noisy returns why noise may explain a ratio, or "" if noise cannot.
func Noisy(ratio Estimate, band record.Band) string {
	if why := ratio.Unknowable(); why != "" && !ratio.isFar() {
		return why
	}
	if band.Noisy() && !isPlain(ratio.Interval, band.AA) {
		return fmt.Sprintf("the default against itself varies by %.1f %%, more than the band of %.1f %%", 100*band.AA, 100*band.Policy)
	}
	return ""
}

// isFar reports whether a ratio is so far from 1 that chance cannot explain it: at least
// plainSpreads spreads. The spread is half the width of the interval, or the range of the rounds if
// that is smaller. The range is needed because a strong correlation makes the interval up to 14
// times as wide. With the interval alone, a gain of 4.4 did not count as far from 1, although no
// round had a gain below 3.7.
func (e Estimate) isFar() bool {
	return math.Abs(math.Log(e.Mid)) >= plainSpreads*min(normal95*e.StdErr(), e.Range)
}

// Fail returns the decision of a search in which a needed config failed.
func Fail(m Comparison, cause record.Cause, reason string) record.Decision {
	return record.Decision{Config: m.Config, Default: m.Default, Gain: m.Gain.Interval, Challenger: m.Config, ChallengerGain: m.Gain.Interval,
		Band: m.Band, Verdict: record.Undecided, Cause: cause, Reason: reason}
}

// Decide decides about a challenger, m.Config. The challenger wins if it is faster than the
// default; otherwise the default stays. m must not hold the rounds in which the challenger was
// chosen, because it may have been lucky in them.
func Decide(m Comparison) record.Decision {
	d := Compare(m)
	if d.Verdict != record.Faster {
		d.Config, d.Gain = m.Default, record.One
	}
	return d
}
