package search

import (
	"fmt"
	"math"
	"slices"

	gonum "gonum.org/v1/gonum/stat"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// MergeSessions merges the finalists that occur in every session, in the order of the first session. Each session lays
// out memory anew, which changes times.
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
	out.Times = stat.TimesOf(seconds)
	out.Median = stat.Median(medians)
	return out, true
}

// Claim returns a finalist's gain over the default, and warnings. `earlier` is the gain in the rounds that chose the
// finalist. If the gain differs from `earlier`, Claim widens the interval to cover both gains. In half of the rounds,
// other finalists ran too, which can change the gain. If the gains of the two halves differ, Claim widens the interval
// to cover both.
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
		warnings = append(warnings, fmt.Sprintf("the gain is %.3f in rounds without other configs and %.3f in rounds with them: the interval covers both", alone.Mid, crowded.Mid))
	}
	if earlier.Mid > 0 && stat.Differ(gain.Interval, earlier.Interval) {
		warnings = append(warnings, fmt.Sprintf("the gain was %.3f in the rounds that chose the config and is %.3f in later rounds: the interval covers both", earlier.Mid, gain.Mid))
		gain.Cover(earlier.Mid)
	}
	return gain, warnings
}

// AAOverSessions compares the default with its twin (its second measurement) over sessions. It returns nil if a session
// lacks one of the two.
func AAOverSessions(merged []Finalist, dflt int) *record.SessionsAA {
	base, twin := pick(merged, dflt), pick(merged, Twin)
	if base.Rounds == 0 || twin.Rounds == 0 {
		return nil
	}
	ratio := stat.Ratio(twin.commonRounds(base, func(roundSet) bool { return true })...)
	return &record.SessionsAA{Ratio: record.Interval{Mid: 1 / ratio.Mid, Low: 1 / ratio.High, High: 1 / ratio.Low}, Default: base.SessionSpread()}
}

// DecideOverSessions decides again. It uses `merged`, the finalists over further sessions, which must include
// challenger and default. A faster runner-up becomes the challenger. It returns the decision and the finalist that won.
// The decision is noisy only if the A/A interval over sessions excludes 1.
func (c Conclusion) DecideOverSessions(s *Space, was record.Decision, merged []Finalist, sessions int) (record.Decision, Finalist) {
	dflt := pick(merged, c.Default.Point)
	point, _ := s.Index(was.Challenger)
	win, earlier := pick(merged, point), stat.Estimate{Interval: was.ChallengerGain}
	if len(c.Others) > 0 && !was.Crossed {
		second := pick(merged, c.Others[0])
		if second.Rounds > 0 && stat.Judge(second.Gain(win).Interval, was.Band.Policy) == record.Faster {
			win, earlier = second, stat.Estimate{}
		}
	}
	gain, warnings := win.Claim(dflt, earlier)
	band := record.Band{Policy: was.Band.Policy, AA: min(was.Band.AA, was.Band.Policy)}
	if aa := AAOverSessions(merged, dflt.Point); aa != nil && (aa.Ratio.Low > 1 || aa.Ratio.High < 1) {
		band.AA = max(band.AA, math.Abs(aa.Ratio.Mid-1))
	}
	m := stat.Comparison{Config: s.Config(win.Point), Default: was.Default, Gain: gain, Band: band}
	if was.Cause == record.HostBound {
		m.HostBound = was.Reason
	}
	d := stat.Decide(m)
	d.Crossed, d.Rounds, d.Sessions = was.Crossed, win.Rounds, sessions
	if d.Reason == "" && was.Verdict == record.Faster && d.KeepsDefault() {
		d.Reason = fmt.Sprintf("%s was faster in the session of the search, but is not certainly faster in %d further sessions: %.3f [%.3f, %.3f]",
			d.Challenger.Key(), sessions, gain.Mid, gain.Low, gain.High)
	} else if d.Reason == "" && was.Cause == "" {
		d.Reason = was.Reason
	}
	if d.KeepsDefault() {
		win = dflt
	}
	win.Warnings = warnings
	return d, win
}

// SessionSpread returns the relative standard deviation of a finalist's median time over sessions, 0 for one session.
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
