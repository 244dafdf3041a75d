package search

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// finalStep is how many rounds are measured between two looks at the finalists.
const finalStep = 10

// Finalist is a point with what fresh samples say about it. Times are seconds
// of one call.
type Finalist struct {
	Point int
	record.Times
	Rounds   int
	Effect   float64 // logarithm of its time over the default's, cleared of its rounds
	Warnings []string

	seconds  []float64 // of one call, by round
	adjusted []float64 // logarithms of times less their rounds' effect, in time order
	rounds   []int     // of clear
}

// Finals measures the best points and the required ones on fresh samples
// only, and returns those that did not fail, fastest first. Points that are
// clearly outside the band drop out early; the default stays. Finals
// end after finalShare times the samples of the search before them: after 25 points more is
// lost by what was not tried than by which of the best is taken. The first rounds of the
// required points, of which most drop out then, do not count.
func (s *State) Finals(ctx context.Context, p Protocol, stage record.Stage) ([]Finalist, error) {
	most := int(finalSampleShare*float64(s.spent)) + p.MinRounds*len(s.Required)
	return s.runFinals(ctx, p, stage, s.finalPoints(p), most)
}

// finalSampleShare bounds the samples of finals by those of the search before them.
// Twice as many chose no better on recorded spaces, as many chose worse at 50 points.
const finalSampleShare = 1.5

// FinalsOf is Confirm for given points, without a bound on samples.
func (s *State) FinalsOf(ctx context.Context, p Protocol, stage record.Stage, live []int) ([]Finalist, error) {
	return s.runFinals(ctx, p, stage, live, math.MaxInt)
}

func (s *State) runFinals(ctx context.Context, p Protocol, stage record.Stage, live []int, most int) ([]Finalist, error) {
	f := NewState(s.Space, s.eval, Budget{}, s.Default, live, s.Rand)
	for _, i := range live {
		f.failed[i] = s.failed[i]
	}
	defer func() { s.spent += f.spent }()
	for done, n := 0, p.MinRounds; done < p.MaxRounds; n = finalStep {
		n = min(n, p.MaxRounds-done)
		if err := f.Measure(ctx, stage, live, n); err != nil {
			return nil, err
		}
		done += n
		var open bool
		if live, open = f.dropSlower(live, p.Band); !open || f.spent >= most || s.outOfTime() {
			break
		}
	}
	for i, dead := range f.failed {
		s.failed[i] = s.failed[i] || dead
	}
	return f.summarise(), nil
}

// fewestFinalists are confirmed of any search, and one in finalEvery of the points tried:
// 24 of 25 would be no final, and 4 of 400 would miss the best too often.
const (
	fewestFinalists = 5
	finalEvery      = 8
)

// finalistQuota is how many of the points tried are worth a final.
func finalistQuota(tried int) int { return max(fewestFinalists, tried/finalEvery) }

// finalPoints are the points to confirm, fewer when time is short.
func (s *State) finalPoints(p Protocol) []int {
	n := min(p.Finalists, finalistQuota(len(s.points)))
	if s.Timed() && s.spent > 0 {
		left := s.budget.Time - s.eval.Spent()
		n = max(3, min(n, int(left/max(s.sampleTime()*time.Duration(p.MinRounds), 1))))
	}
	return s.Keep(s.Measured(), n)
}

// StopRule is when a duel ends: after Least rounds where the gain is clear by then, see
// stat.Clear, else after Most.
type StopRule struct {
	MinRounds, MaxRounds int
	Band                 float64
}

// MeasureAgainstDefault measures the chosen point against the default once more. A point that
// was chosen for its times looks faster than it is. Rounds that had no part in
// the choice do not flatter, so times and gains are reported from these.
// winner.Rounds is 0 where the point failed.
func (s *State) MeasureAgainstDefault(ctx context.Context, stage record.Stage, chosen int, looks StopRule) (winner, dflt Finalist, err error) {
	f := NewState(s.Space, s.eval, Budget{}, s.Default, []int{chosen}, s.Rand)
	defer func() { s.spent += f.spent }()
	first := min(looks.MinRounds, looks.MaxRounds)
	if chosen == s.Default { // nothing to decide: its time is reported
		first = looks.MaxRounds
	}
	for done, n := 0, first; n > 0; done, n = done+n, looks.MaxRounds-done-n {
		if err := f.Measure(ctx, stage, []int{chosen}, n); err != nil {
			return winner, dflt, err
		}
		winner, dflt = f.againstDefault(chosen)
		if winner.Rounds == 0 || dflt.Rounds == 0 || stat.Clear(winner.Gain(dflt), looks.Band) {
			break
		}
	}
	if winner.Rounds == 0 {
		s.failed[chosen] = true
	}
	return winner, dflt, nil
}

// againstDefault is a point and the default, as far as they were measured.
func (s *State) againstDefault(chosen int) (winner, dflt Finalist) {
	for _, x := range s.summarise() {
		if x.Point == chosen {
			winner = x
		}
		if x.Point == s.Default {
			dflt = x
		}
	}
	return winner, dflt
}

func (s *State) outOfTime() bool { return s.Timed() && s.eval.Spent() > s.budget.Time }

// dropSlower drops what is clearly slower than the best, the default aside, and
// reports whether any comparison with the best is still open. Two standard
// errors decide.
func (s *State) dropSlower(live []int, band float64) (rest []int, open bool) {
	fs := s.adjusted()
	for i, f := range fs {
		doubt, diff := 2*fs[0].stdErrOfDifference(f), f.Effect-fs[0].Effect
		slower := diff-doubt > math.Log1p(band)
		if !slices.Contains(live, f.Point) || slower && f.Point != s.Default {
			continue
		}
		rest = append(rest, f.Point)
		open = open || i > 0 && !slower && diff+doubt > math.Log1p(band)
	}
	return rest, open
}

// adjusted is every point that did not fail, with its samples cleared of what
// their rounds had in common, fastest first.
func (s *State) adjusted() []Finalist {
	_, round := stat.Polish(s.obs, s.itemOf[s.Default])
	all := make([]Finalist, len(s.points))
	for _, o := range s.obs {
		f := &all[o.Item]
		f.adjusted = append(f.adjusted, o.Log-round[o.Round])
		f.rounds = append(f.rounds, o.Round)
	}
	var out []Finalist
	for k, f := range all {
		if f.Point = s.points[k]; !s.failed[f.Point] && len(f.adjusted) > 0 {
			f.Effect = stat.Midmean(f.adjusted)
			out = append(out, f)
		}
	}
	if k, ok := s.itemOf[s.Default]; ok {
		base := stat.Midmean(all[k].adjusted)
		for i := range out {
			out[i].Effect -= base
		}
	}
	slices.SortFunc(out, func(a, b Finalist) int {
		return cmp.Or(cmp.Compare(a.Effect, b.Effect), cmp.Compare(a.Point, b.Point))
	})
	return out
}

// summarise completes the finalists.
func (s *State) summarise() []Finalist {
	raw := make([][]float64, len(s.points))
	for _, o := range s.obs {
		raw[o.Item] = append(raw[o.Item], math.Exp(o.Log))
	}
	fs := s.adjusted()
	for i := range fs {
		f := &fs[i]
		xs := raw[s.itemOf[f.Point]]
		f.seconds, f.Times = xs, record.Times{Median: stat.Median(xs), P10: stat.Quantile(xs, 0.1), P90: stat.Quantile(xs, 0.9)}
		f.Rounds, f.Warnings = len(xs), stat.Warnings(xs)
	}
	return fs
}

// Gain is the time of dflt over that of f, over the rounds that both were in,
// with its interval.
func (f Finalist) Gain(dflt Finalist) record.Interval {
	if f.Point == dflt.Point {
		return record.One
	}
	return stat.MedianRatio(f.commonRounds(dflt))
}

// commonRounds are the logarithms of dflt's times and of f's in the rounds that both were in,
// in time order.
func (f Finalist) commonRounds(dflt Finalist) (a, b []float64) {
	for i, r := range f.rounds {
		if k, ok := slices.BinarySearch(dflt.rounds, r); ok {
			a, b = append(a, dflt.adjusted[k]), append(b, f.adjusted[i])
		}
	}
	return a, b
}
