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

// finalStep is the number of rounds between two removals of slow finalists.
const finalStep = 10

// A Finalist is a point with its samples since the finals began. Times are seconds of one call.
type Finalist struct {
	Point int
	record.Times
	Rounds   int
	Effect   float64 // log(its time / the default's time), without disturbances of whole rounds
	Warnings []string

	parts    []roundSet
	adjusted []float64 // logarithms of times, without these disturbances, in time order
}

// roundSet holds rounds of one session in time order; crowded rounds had neighbours too.
type roundSet struct {
	session int
	crowded bool
	rounds  []int
	logs    []float64 // logarithms of seconds
}

// Finals measures the best and the required points on fresh samples, and returns those that did not fail, fastest
// first. Clearly slower points drop out; the default stays. The finals take at most finalSampleShare times the samples
// of the search. The first rounds of required points do not count.
func (s *State) Finals(ctx context.Context, p Protocol, stage record.Stage) ([]Finalist, error) {
	most := int(finalSampleShare*float64(s.spent)) + p.MinRounds*len(s.Required)
	return s.runFinals(ctx, p, stage, s.finalPoints(p), most)
}

// finalSampleShare bounds the samples of the finals, divided by those of the search. On recorded spaces 2 gave no
// better winners, and 1 worse ones.
const finalSampleShare = 1.5

// FinalsOf measures given points like Finals, without a bound on samples.
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

// One in finalEvery of the tried points becomes a finalist, and at least fewestFinalists do.
const (
	fewestFinalists = 5
	finalEvery      = 8
)

func finalistQuota(tried int) int { return max(fewestFinalists, tried/finalEvery) }

// finalPoints returns the points of the finals, fewer if time is short.
func (s *State) finalPoints(p Protocol) []int {
	n := min(p.Finalists, finalistQuota(len(s.points)))
	if s.Timed() && s.spent > 0 {
		left := s.budget.Time - s.eval.Spent()
		n = max(3, min(n, int(left/max(s.sampleTime()*time.Duration(p.MinRounds), 1))))
	}
	return s.Keep(s.Measured(), n)
}

// A StopRule ends a comparison after MinRounds if the gain is clear (see stat.Clear), and otherwise after MaxRounds.
// Correlated rounds may take more.
type StopRule struct {
	MinRounds, MaxRounds int
	Band                 float64
}

// MeasureAgainstDefault measures a point and the default in fresh rounds. chosen.Rounds is 0 if the point failed.
func (s *State) MeasureAgainstDefault(ctx context.Context, stage record.Stage, point int, rule StopRule) (chosen, dflt Finalist, err error) {
	all, err := s.confirm(ctx, stage, []int{point}, nil, rule)
	if err != nil {
		return chosen, dflt, err
	}
	return pick(all, point), pick(all, s.Default), nil
}

// pick returns the finalist at a point, or a zero Finalist.
func pick(all []Finalist, point int) (out Finalist) {
	if i := slices.IndexFunc(all, func(f Finalist) bool { return f.Point == point }); i >= 0 {
		out = all[i]
	}
	return out
}

// confirm measures points against the default in fresh rounds, because luck helps in the rounds that chose them.
// Neighbours run in half of the rounds, because other points change times by about 1 %.
func (s *State) confirm(ctx context.Context, stage record.Stage, points, neighbours []int, rule StopRule) ([]Finalist, error) {
	f := NewState(s.Space, s.eval, Budget{}, s.Default, points, s.Rand)
	defer func() { s.spent += f.spent }()
	n := min(rule.MinRounds, rule.MaxRounds)
	if points[0] == s.Default { // there is nothing to decide; only the default's time is reported
		n = rule.MaxRounds
	}
	var out []Finalist
	for done := 0; n > 0; done, n = done+n, rule.MaxRounds-done-n {
		if err := f.measureCrowded(ctx, stage, points, neighbours, n); err != nil {
			return nil, err
		}
		out = f.summarise()
		win, dflt := pick(out, points[0]), pick(out, s.Default)
		if win.Rounds == 0 || dflt.Rounds == 0 {
			break
		}
		gain := win.Gain(dflt)
		if gain.Unknowable() != "" {
			rule.MaxRounds = max(rule.MaxRounds, correlatedRounds*rule.MinRounds)
		} else if stat.Clear(gain.Interval, rule.Band) {
			break
		}
	}
	for _, i := range points {
		s.failed[i] = s.failed[i] || f.failed[i]
	}
	return out, nil
}

// correlatedRounds is the factor on MinRounds for similar consecutive rounds. Of 25 independent rounds, 2 to 3 % look
// similar by chance.
const correlatedRounds = 4

// MeasureFresh measures points in new rounds, the neighbours in half of them. It returns the points that did not fail,
// fastest first.
func (s *State) MeasureFresh(ctx context.Context, stage record.Stage, points, neighbours []int, rounds int) ([]Finalist, error) {
	f := NewState(s.Space, s.eval, Budget{}, s.Default, points, s.Rand)
	err := f.measureCrowded(ctx, stage, points, neighbours, rounds)
	return f.summarise(), err
}

func (s *State) measureCrowded(ctx context.Context, stage record.Stage, points, neighbours []int, rounds int) error {
	crowded := 0
	if len(neighbours) > 0 {
		crowded = rounds / 2
	}
	if err := s.Measure(ctx, stage, points, rounds-crowded); err != nil || crowded == 0 {
		return err
	}
	before := len(s.obs)
	err := s.Measure(ctx, stage, slices.Concat(points, neighbours), crowded)
	for _, o := range s.obs[before:] {
		s.crowded[o.Round] = true
	}
	return err
}

func (s *State) outOfTime() bool { return s.Timed() && s.eval.Spent() > s.budget.Time }

// dropSlower drops points that are slower than the best by more than the band and two standard errors, never the
// default. `open` is true if this is undecided for a point.
func (s *State) dropSlower(live []int, band float64) (rest []int, open bool) {
	fs := s.adjustedPoints()
	for i, f := range fs {
		margin, diff := 2*fs[0].stdErrOfDifference(f), f.Effect-fs[0].Effect
		slower := diff-margin > math.Log1p(band)
		if !slices.Contains(live, f.Point) || slower && f.Point != s.Default {
			continue
		}
		rest = append(rest, f.Point)
		open = open || i > 0 && !slower && diff+margin > math.Log1p(band)
	}
	return rest, open
}

// adjustedPoints returns the points that did not fail, fastest first, without disturbances of whole rounds (see
// stat.Polish).
func (s *State) adjustedPoints() []Finalist {
	_, round := stat.Polish(s.obs, s.itemOf[s.Default])
	all := make([]Finalist, len(s.points))
	for _, o := range s.obs {
		f := &all[o.Item]
		f.adjusted = append(f.adjusted, o.Log-round[o.Round])
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

func (s *State) summarise() []Finalist {
	parts := make([][2]roundSet, len(s.points))
	seconds := make([][]float64, len(s.points))
	for _, o := range s.obs {
		p := &parts[o.Item][0]
		if s.crowded[o.Round] {
			p = &parts[o.Item][1]
			p.crowded = true
		}
		p.rounds, p.logs = append(p.rounds, o.Round), append(p.logs, o.Log)
		seconds[o.Item] = append(seconds[o.Item], math.Exp(o.Log))
	}
	fs := s.adjustedPoints()
	for i := range fs {
		f := &fs[i]
		item := s.itemOf[f.Point]
		xs := seconds[item]
		f.Times, f.Rounds, f.Warnings = stat.TimesOf(xs), len(xs), stat.Warnings(xs)
		f.parts = slices.DeleteFunc(parts[item][:], func(p roundSet) bool { return len(p.rounds) == 0 })
	}
	return fs
}

// Gain returns the time of dflt divided by the time of f, in their common rounds.
func (f Finalist) Gain(dflt Finalist) stat.Estimate {
	if f.Point == dflt.Point {
		return stat.Exactly(f.Rounds)
	}
	return stat.Ratio(f.commonRounds(dflt, func(roundSet) bool { return true })...)
}

// commonRounds returns the rounds of both dflt and f, in the round sets of f for which `use` is true.
func (f Finalist) commonRounds(dflt Finalist, use func(roundSet) bool) (out []stat.Part) {
	for _, p := range f.parts {
		i := slices.IndexFunc(dflt.parts, func(q roundSet) bool { return q.session == p.session && q.crowded == p.crowded })
		if i < 0 || !use(p) {
			continue
		}
		common := stat.Part{Session: p.session}
		for k, round := range p.rounds {
			if at, ok := slices.BinarySearch(dflt.parts[i].rounds, round); ok {
				common.A, common.B = append(common.A, dflt.parts[i].logs[at]), append(common.B, p.logs[k])
			}
		}
		out = append(out, common)
	}
	return out
}
