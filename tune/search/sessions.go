package search

import (
	"fmt"
	"math"
	"slices"

	gonum "gonum.org/v1/gonum/stat"

	"github.com/epbench/epbench/tune/stat"
)

// MergeSessions joins the finalists of several sessions: those that are in each of them, in the
// order of the first. Their gains are over sessions: memory is laid out anew in each,
// which moves all of its rounds together.
func MergeSessions(sessions [][]Finalist) []Finalist {
	var out []Finalist
	if len(sessions) == 0 {
		return nil
	}
	for _, first := range sessions[0] {
		if f, ok := mergePoint(sessions, first.Point); ok {
			out = append(out, f)
		}
	}
	return out
}

func mergePoint(sessions [][]Finalist, point int) (out Finalist, ok bool) {
	var medians, effects, seconds []float64
	out.Point = point
	for n, finals := range sessions {
		i := slices.IndexFunc(finals, func(f Finalist) bool { return f.Point == point })
		if i < 0 {
			return out, false
		}
		f := finals[i]
		medians, effects = append(medians, f.Median), append(effects, f.Effect)
		for _, p := range f.parts {
			p.session = n
			out.parts = append(out.parts, p)
			for _, x := range p.logs {
				seconds = append(seconds, math.Exp(x))
			}
		}
		out.Rounds += f.Rounds
	}
	out.Effect = stat.Median(effects)
	out.Times = timesOf(seconds)
	out.Median = stat.Median(medians)
	return out, true
}

// Claim returns the gain of a finalist over the default, and warnings about it. earlier is the
// gain in the rounds that chose the finalist. Where that differs from the gain by more than
// their errors, or the gain with neighbours in a round from the gain without, the interval covers
// both: what else runs in a round, or in a session, moves times.
func (f Finalist) Claim(dflt Finalist, earlier stat.Estimate) (gain stat.Estimate, warnings []string) {
	gain = f.Gain(dflt)
	if f.Point == dflt.Point {
		return gain, nil
	}
	alone := stat.Ratio(f.commonRounds(dflt, func(p roundSet) bool { return !p.crowded })...)
	crowded := stat.Ratio(f.commonRounds(dflt, func(p roundSet) bool { return p.crowded })...)
	if stat.Differ(alone.Interval, crowded.Interval) {
		gain.Cover(alone.Mid)
		gain.Cover(crowded.Mid)
		warnings = append(warnings, fmt.Sprintf("the gain is %.3f alone and %.3f with other configs in the same rounds: the interval covers both", alone.Mid, crowded.Mid))
	}
	if earlier.Mid > 0 && stat.Differ(gain.Interval, earlier.Interval) {
		warnings = append(warnings, fmt.Sprintf("the gain was %.3f in the rounds of the choice and is %.3f in later ones: the interval covers both", earlier.Mid, gain.Mid))
		gain.Cover(earlier.Mid)
	}
	return gain, warnings
}

// SessionSpread returns the relative standard deviation of a finalist's median time over sessions, 0
// for one session.
func (f Finalist) SessionSpread() float64 {
	bySession := map[int][]float64{}
	for _, p := range f.parts {
		bySession[p.session] = append(bySession[p.session], p.logs...)
	}
	var mids []float64
	for n := range len(bySession) {
		mids = append(mids, stat.Median(bySession[n]))
	}
	if len(mids) < 2 {
		return 0
	}
	return gonum.StdDev(mids, nil)
}
