package search

import (
	"context"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// These constants bound the further rounds of the finals. For uncertain rivals, uncertainRounds replaces furtherRounds
// and uncertainSampleShare replaces furtherSampleShare.
const (
	furtherRounds        = 4   // limits all rounds of the finals, as a multiple of MaxRounds
	furtherSampleShare   = 2.5 // limits all samples of the finals, as a multiple of the samples of the search
	uncertainRounds      = 16
	uncertainSampleShare = 6
	uncertainError       = 0.3 // multiple of the band; with a larger standard error, a rival is uncertain
)

// furtherFinals measures more rounds of the fastest finalist and of its rivals, as long as a rival is left.
// f holds the samples of the finals so far. `done` is the number of rounds so far. `usual` is
// Protocol.MaxRounds, or 0 for no further rounds.
func (s *State) furtherFinals(ctx context.Context, p Protocol, f *State, stage record.Stage, done, usual int) error {
	within := func(rounds int, share float64) bool {
		return done+finalStep <= rounds*usual && f.spent < int(share*float64(s.spent))
	}
	for ; within(uncertainRounds, uncertainSampleShare); done += finalStep {
		live := f.maybeFaster(p.Band / 2)
		if !within(furtherRounds, furtherSampleShare) {
			live = f.uncertain(live, uncertainError*p.Band)
		}
		if len(live) < 2 || !s.timeFor((len(live)+1)*finalStep+p.confirmSamples(), f) {
			break
		}
		if err := f.Measure(ctx, stage, live, finalStep); err != nil {
			return err
		}
	}
	return nil
}

// timeFor reports whether the time limit allows this many further samples, see samplesInTime.
func (s *State) timeFor(samples int, latest *State) bool { return samples <= s.samplesInTime(latest) }

// samplesInTime returns how many further samples the time limit allows, if they take as long as those of `latest`.
func (s *State) samplesInTime(latest *State) int {
	each := latest.sampleTime()
	if !s.Timed() || each == 0 {
		return math.MaxInt
	}
	return int((s.budget.Time - s.eval.Spent()) / each)
}

// confirmSamples returns the number of samples of the shortest confirmation, which has p.ConfirmRounds rounds. Three
// configs run in every round, and Neighbours further finalists run in half of the rounds.
func (p Protocol) confirmSamples() int { return p.ConfirmRounds * (3 + Neighbours/2) }

const quantile99 = 2.326 // of the normal distribution

// maybeFaster returns the point that looks fastest, and its rivals. For a rival, the estimated probability that it is
// faster by more than `by` exceeds 1 %.
func (s *State) maybeFaster(by float64) (out []int) {
	fs := s.adjustedPoints()
	for i, f := range fs {
		if i == 0 || s.maybeFasterThan(fs[0].Point, f.Point, by) {
			out = append(out, f.Point)
		}
	}
	return out
}

// maybeFasterThan reports whether `rival` may be faster than `best` by more than `by`. It compares the two points round
// by round, and does not use the standard errors that follow from adjustedPoints. These are too small for rounds of two
// or three points, because adjustedPoints subtracts the round's median, which is close to one point's sample.
func (s *State) maybeFasterThan(best, rival int, by float64) bool {
	ratio := stat.Ratio(s.inCommonRounds(rival, best))
	return math.Log(ratio.Mid)+by < quantile99*ratio.StdErr()
}

// uncertain returns the first point and the uncertain ones of the others. A point is uncertain if its difference from
// the first point has a standard error above `most`.
func (s *State) uncertain(points []int, most float64) []int {
	return slices.DeleteFunc(points, func(i int) bool {
		return i != points[0] && stat.Ratio(s.inCommonRounds(i, points[0])).StdErr() <= most
	})
}

// inCommonRounds returns the samples of two points in the rounds in which both were measured.
func (s *State) inCommonRounds(a, b int) (out stat.Part) {
	itemA, itemB := s.itemOf[a], s.itemOf[b]
	var other []float64 // [round] logarithm of the time of b
	for _, o := range s.obs {
		for o.Item == itemB && o.Round >= len(other) {
			other = append(other, math.NaN())
		}
		if o.Item == itemB {
			other[o.Round] = o.Log
		}
	}
	for _, o := range s.obs {
		if o.Item == itemA && o.Round < len(other) && !math.IsNaN(other[o.Round]) {
			out.A, out.B = append(out.A, o.Log), append(out.B, other[o.Round])
		}
	}
	return out
}

// spreadWeight is the weight of the usual spread in setSpreads, counted in samples.
const spreadWeight = 20

// setSpreads estimates the spread of each finalist from its own samples and from the usual spread (the median over
// finalists), because the spread of ten samples alone is often far too small. The spread of a finalist
// without samples stays 0.
func setSpreads(all []Finalist) {
	var spreads []float64
	for i, f := range all {
		if len(f.adjusted) == 0 {
			continue
		}
		all[i].spread = stat.Spread(f.adjusted)
		if len(f.adjusted) > 1 {
			spreads = append(spreads, all[i].spread)
		}
	}
	if len(spreads) == 0 {
		return
	}
	usual := stat.Median(spreads)
	for i, f := range all {
		if n, own := float64(len(f.adjusted)), f.spread; n > 0 {
			all[i].spread = math.Sqrt((n*own*own + spreadWeight*usual*usual) / (n + spreadWeight))
		}
	}
}
