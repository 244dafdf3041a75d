package search

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

const finalStep = 10

// A Finalist is a point (the index of a config) with the samples of the finals. A sample is the time of a point in one
// round, in seconds of one call.
type Finalist struct {
	Point int
	record.Times
	Rounds   int     // number of samples
	Effect   float64 // logarithm of (point's time / default's time)
	Warnings []string

	parts    []roundSet
	adjusted []float64 // logarithms of the samples, without disturbances of whole rounds
	spread   float64   // see setSpreads
}

// roundSet holds the samples of a point in consecutive rounds of one session.
type roundSet struct {
	session int
	crowded bool // other finalists (neighbours) were measured in these rounds too, see confirm
	rounds  []int
	logs    []float64 // logarithms of the samples
}

// Finals measures the best points of the search and the required points in new rounds. It drops points that are clearly
// slower than the best point, except the default config. After p.MinRounds rounds it goes on while more rounds may drop
// another point, up to the number of samples that finalSampleShare allows. If it is then uncertain which point is the
// fastest, furtherFinals measures more rounds. Finals returns the points that did not fail, the fastest first.
func (s *State) Finals(ctx context.Context, p Protocol, stage record.Stage) ([]Finalist, error) {
	most := int(finalSampleShare*float64(s.spent)) + p.MinRounds*len(s.Required)
	return s.runFinals(ctx, p, stage, s.finalPoints(p), most, p.MaxRounds)
}

// finalSampleShare limits the samples of the finals to a multiple of the samples of the search.
const finalSampleShare = 1.5

// FinalsOf does the same as Finals for the points in `live`, without a bound on the samples and without furtherFinals.
func (s *State) FinalsOf(ctx context.Context, p Protocol, stage record.Stage, live []int) ([]Finalist, error) {
	return s.runFinals(ctx, p, stage, live, math.MaxInt, 0)
}

func (s *State) runFinals(ctx context.Context, p Protocol, stage record.Stage, live []int, most, further int) ([]Finalist, error) {
	f := NewState(s.Space, s.eval, Budget{}, s.Default, live, s.Rand)
	for _, i := range live {
		f.failed[i] = s.failed[i]
	}
	defer func() { s.spent += f.spent }()
	done := 0
	for n := p.MinRounds; done < p.MaxRounds; n = finalStep {
		n = min(n, p.MaxRounds-done)
		if err := f.Measure(ctx, stage, live, n); err != nil {
			return nil, err
		}
		done += n
		var open bool
		if live, open = f.dropSlower(p.Band); !open || f.spent >= most || !s.timeFor(len(live)*finalStep+p.confirmSamples(), f) {
			break
		}
	}
	if err := s.furtherFinals(ctx, p, f, stage, done, further); err != nil {
		return nil, err
	}
	for i, dead := range f.failed {
		s.failed[i] = s.failed[i] || dead
	}
	return f.summarise(), nil
}

const (
	fewestFinalists = 5
	finalEvery      = 8
	leastInTime     = 3 // finalists if no time is left
	rivalErrors     = 3 // see maybeFastest
)

// finalists returns how many finalists a search wants. `quota` is a share of the points. `more` counts the points
// beyond `quota` that may be the fastest.
func (s *State) finalists() (quota, more int) {
	if s.rivals == 0 {
		s.rivals = s.maybeFastest()
	}
	quota = max(fewestFinalists, len(s.points)/finalEvery)
	return quota, max(0, s.rivals-quota)
}

// finalPoints returns the required points, a quota of the fastest points, and others that may be as fast as the fastest
// one, within the time limit. It returns at most p.Finalists points of the quota, and at most p.Finalists of the
// others. The limit does not change the number of others: if 50 of 384 points may be the fastest and p.Finalists is 24,
// the quota is 48, and finalPoints returns the fastest 24 + 2 points and the required ones.
func (s *State) finalPoints(p Protocol) []int {
	quota, more := s.finalists()
	inTime := (s.samplesInTime(s)-p.confirmSamples())/p.MinRounds - 1 // besides the default
	return s.Keep(s.Measured(), min(min(p.Finalists, quota)+min(p.Finalists, more), max(leastInTime, inTime)))
}

// maybeFastest returns how many points are at most rivalErrors standard errors slower than the fastest one. A point
// has too few samples to show its noise, so all points count as equally noisy.
func (s *State) maybeFastest() int {
	fs, noise := s.adjustedPoints(), s.noise()
	return len(slices.DeleteFunc(slices.Clone(fs), func(f Finalist) bool {
		samples := 1/float64(len(f.adjusted)) + 1/float64(len(fs[0].adjusted))
		return f.Effect-fs[0].Effect > rivalErrors*noise*math.Sqrt(math.Pi/2*samples) // see stat.StdErr
	}))
}

// A StopRule says when a comparison with the default config ends: after MinRounds if the result is clear, and otherwise
// after MaxRounds. If the times of neighbouring rounds are correlated, the comparison may take more rounds.
type StopRule struct {
	MinRounds, MaxRounds int
	Band                 float64
}

// MeasureAgainstDefault measures a point and the default config in new rounds. If the point fails, chosen.Rounds is 0.
func (s *State) MeasureAgainstDefault(ctx context.Context, stage record.Stage, point int, rule StopRule) (chosen, dflt Finalist, err error) {
	all, err := s.confirm(ctx, stage, []int{point}, nil, rule)
	if err != nil {
		return chosen, dflt, err
	}
	return pick(all, point), pick(all, s.Default), nil
}

// pick returns the finalist of a point, or a zero Finalist.
func pick(all []Finalist, point int) (out Finalist) {
	if i := slices.IndexFunc(all, func(f Finalist) bool { return f.Point == point }); i >= 0 {
		out = all[i]
	}
	return out
}

// confirm measures points and the default config in new rounds, because a point may have been fast by luck before. In
// half of the rounds it measures `neighbours` (further finalists) too, because a config's times change by about 1 % if
// other configs run in the same rounds. So the result covers rounds with and without neighbours.
func (s *State) confirm(ctx context.Context, stage record.Stage, points, neighbours []int, rule StopRule) ([]Finalist, error) {
	f := NewState(s.Space, s.eval, Budget{}, s.Default, points, s.Rand)
	defer func() { s.spent += f.spent }()
	n, each := min(rule.MinRounds, rule.MaxRounds), 1+len(points)+len(neighbours)/2
	// The loop ends early if the gain clearly differs from 1. The default's gain over itself never does, so all rounds
	// run at once.
	if points[0] == s.Default {
		n = max(n, min(rule.MaxRounds, s.samplesInTime(s)/each))
	}
	var out []Finalist
	for done := 0; n > 0; n = min(rule.MaxRounds-done, s.samplesInTime(f)/each) {
		if err := f.measureCrowded(ctx, stage, points, neighbours, n); err != nil {
			return nil, err
		}
		done += n
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

// correlatedRounds * MinRounds limits the rounds of a comparison if the times of neighbouring rounds are correlated.
const correlatedRounds = 4

// MeasureFresh measures `points` in new rounds, and in half of these rounds `neighbours` too. It returns the points
// that did not fail, the fastest first.
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

// clearlyErrors says how many standard errors make a point clearly slower. The finals compare dozens of points
// again and again, so two standard errors would often drop the best point.
const clearlyErrors = 2.6

// dropSlower returns the default and the points that are not slower than the best point by more than the band plus
// clearlyErrors standard errors. The result may have points that an earlier call left out. `open` is true if more
// samples may drop another point.
func (s *State) dropSlower(band float64) (rest []int, open bool) {
	fs := s.adjustedPoints()
	for i, f := range fs {
		margin, diff := clearlyErrors*fs[0].stdErrOfDifference(f), f.Effect-fs[0].Effect
		slower := diff-margin > math.Log1p(band)
		if slower && f.Point != s.Default {
			continue
		}
		rest = append(rest, f.Point)
		open = open || i > 0 && !slower && diff+margin > math.Log1p(band)
	}
	return rest, open
}

// adjustedPoints returns the points that did not fail, the fastest first.
func (s *State) adjustedPoints() []Finalist {
	_, round := stat.Polish(s.obs, s.itemOf[s.Default])
	all := make([]Finalist, len(s.points))
	samples := make([]int, len(s.points)) // [item]
	for _, o := range s.obs {
		samples[o.Item]++
	}
	for k, n := range samples {
		all[k].adjusted = make([]float64, 0, n)
	}
	for _, o := range s.obs {
		f := &all[o.Item]
		f.adjusted = append(f.adjusted, o.Log-round[o.Round])
	}
	setSpreads(all)
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

// Gain returns the time of dflt divided by the time of f, in the rounds in which both were measured.
func (f Finalist) Gain(dflt Finalist) stat.Estimate {
	if f.Point == dflt.Point {
		return stat.Exactly(f.Rounds)
	}
	return stat.Ratio(f.commonRounds(dflt, func(roundSet) bool { return true })...)
}

// commonRounds returns the samples of dflt and f in the rounds in which both were measured. It takes only the round
// sets for which `use` returns true.
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
