package stat

import (
	"fmt"
	"math"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// Judge is the one rule that says whether something is faster than what it is
// compared with. gain is the other's time over its own. A difference counts
// when the estimate is beyond the band and the interval excludes 1. Things are
// the same when the whole interval lies inside the band. To ask for an
// interval wholly beyond the band was tried: gains just above it then need
// several times the rounds to be believed, and it hides little error, since a
// challenger has to pass twice on separate rounds.
func Judge(gain record.Interval, band float64) record.Verdict {
	low, high := 1/(1+band), 1+band
	if gain.Low > 1 && gain.Mid > high {
		return record.Faster
	}
	if gain.High < 1 && gain.Mid < low {
		return record.Slower
	}
	if gain.Low >= low && gain.High <= high {
		return record.Same
	}
	return record.Undecided
}

// clearBands is how many bands the interval of a gain must be away from 1 to end a comparison
// early. A look that may only end it so far from any bound adds no false claims.
const clearBands = 3

// Clear reports whether more rounds can hardly change what a gain is called: its whole
// interval is far from 1.
func Clear(gain record.Interval, band float64) bool {
	far := clearBands * math.Log1p(band)
	return math.Log(gain.Low) > far || math.Log(gain.High) < -far
}

// plainSpreads is how many times the A/A spread a gain must be away from 1 on a noisy machine.
// The spread is known from a few blocks of rounds only.
const plainSpreads = 5

// isPlain reports whether noise of this A/A spread cannot explain a gain: all of its
// interval is far from 1. Without it a search on a machine that varies by 1.4 % would not
// tell a config that takes a third of the default's time.
func isPlain(gain record.Interval, spread float64) bool {
	far := 1 + plainSpreads*spread
	return gain.Low > far || gain.High < 1/far
}

// Comparison is a config measured against the default in rounds that had no part in
// choosing it.
type Comparison struct {
	Config, Default ep.Config
	Gain            record.Interval // the default's time over the config's
	Rounds          int
	Band            record.Band
	HostBound       string // why launch parameters cannot matter here, "" where they can
}

// Compare decides about a config that somebody asked for: it stays, whatever
// the verdict.
func Compare(m Comparison) record.Decision {
	d := record.Decision{
		Config: m.Config, Default: m.Default, Gain: m.Gain, Challenger: m.Config, ChallengerGain: m.Gain,
		Band: m.Band, Rounds: m.Rounds, Verdict: Judge(m.Gain, m.Band.Width()),
	}
	switch {
	case m.Band.Noisy() && !isPlain(m.Gain, m.Band.AA):
		d.Cause, d.Verdict = record.Noisy, record.Undecided
		d.Reason = fmt.Sprintf("the default against itself varies by %.1f %%, more than the band of %.1f %%", 100*m.Band.AA, 100*m.Band.Policy)
	case m.HostBound != "":
		d.Cause, d.Verdict, d.Reason = record.HostBound, record.Same, m.HostBound
	}
	return d
}

// Fail is the decision where a config that was needed failed.
func Fail(m Comparison, cause record.Cause, reason string) record.Decision {
	return record.Decision{Config: m.Config, Default: m.Default, Gain: m.Gain, Challenger: m.Config, ChallengerGain: m.Gain,
		Band: m.Band, Verdict: record.Undecided, Cause: cause, Reason: reason}
}

// Decide decides a search whose finals proposed m.Config: it wins when it is
// faster than the default on fresh rounds, else the default stays. The finals
// may have been lucky, and what is not faster is not worth departing from the
// default for.
func Decide(m Comparison) record.Decision {
	d := Compare(m)
	if d.Verdict != record.Faster {
		d.Config, d.Gain = m.Default, record.One
	}
	return d
}
