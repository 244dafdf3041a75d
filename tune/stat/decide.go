package stat

import (
	"fmt"
	"math"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// Judge returns how A compares with B. gain is B's time divided by A's time. A is faster or slower if gain.Mid is
// beyond the band and the interval excludes 1. A is the same if the interval lies inside the band.
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

const rounding = 1e-9

// A comparison may end early if the whole interval of its gain is more than clearBands bands away from 1. This does not
// raise the rate of false claims.
const clearBands = 3

// Clear reports whether more rounds would almost never change a verdict.
func Clear(gain record.Interval, band float64) bool {
	far := clearBands * math.Log1p(band)
	return math.Log(gain.Low) > far || math.Log(gain.High) < -far
}

// plainSpreads limits the effect of noise. Noise does not explain a gain if the gain differs from 1 by more than
// plainSpreads times the spread of the noise.
const plainSpreads = 5

func isPlain(gain record.Interval, spread float64) bool {
	far := 1 + plainSpreads*spread
	return gain.Low > far || gain.High < 1/far
}

// AASpread returns the A/A spread: how far the default differs from itself. `ratio` is the ratio of two times of the
// default.
func AASpread(ratio record.Interval) float64 { return max(ratio.Half(), math.Abs(ratio.Mid-1)) }

// A Comparison holds a config's gain over the default. The caller must not have used the same rounds to choose the
// config.
type Comparison struct {
	Config, Default ep.Config
	Gain            Estimate // default's time / config's time
	Band            record.Band
	HostBound       string // why launch parameters cannot matter, or ""
}

// Compare decides about a config that the caller chose. The decision names this config even if the config is slower.
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

// Noisy returns why noise may explain a ratio, or "".
func Noisy(ratio Estimate, band record.Band) string {
	if why := ratio.Unknowable(); why != "" && !ratio.isFar() {
		return why
	}
	if band.Noisy() && !isPlain(ratio.Interval, band.AA) {
		return fmt.Sprintf("the default against itself varies by %.1f %%, more than the band of %.1f %%", 100*band.AA, 100*band.Policy)
	}
	return ""
}

// isFar reports whether a ratio is at least plainSpreads spreads away from 1. The spread is the smaller of two values:
// half the interval's width, and the range of the rounds. Correlated rounds can have a far wider interval than their
// range.
func (e Estimate) isFar() bool {
	return math.Abs(math.Log(e.Mid)) >= plainSpreads*min(normal95*e.StdErr(), e.Range)
}

// Fail returns the decision of a search in which a needed config failed.
func Fail(m Comparison, cause record.Cause, reason string) record.Decision {
	return record.Decision{Config: m.Config, Default: m.Default, Gain: m.Gain.Interval, Challenger: m.Config, ChallengerGain: m.Gain.Interval,
		Band: m.Band, Verdict: record.Undecided, Cause: cause, Reason: reason}
}

// Decide decides about a challenger, m.Config. The challenger wins only if it is faster than the default.
func Decide(m Comparison) record.Decision {
	d := Compare(m)
	if d.Verdict != record.Faster {
		d.Config, d.Gain = m.Default, record.One
	}
	return d
}
