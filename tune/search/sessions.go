package search

import (
	"context"
	"slices"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// MeasureFresh measures points in so many rounds that no earlier comparison has a part in, and
// returns those that did not fail, fastest first.
func (s *State) MeasureFresh(ctx context.Context, stage record.Stage, live []int, rounds int) ([]Finalist, error) {
	f := NewState(s.Space, s.eval, Budget{}, s.Default, live, s.Rand)
	err := f.Measure(ctx, stage, live, rounds)
	return f.summarise(), err
}

// MergeSessions sums up finalists of several sessions: those that are in each of them, in the order
// of the first. One session counts as one round. Memory is laid out anew in each, which
// moves all of its rounds together: an interval over single rounds would not cover that.
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
	var medians, effects []float64
	out.Point = point
	for n, finals := range sessions {
		i := slices.IndexFunc(finals, func(f Finalist) bool { return f.Point == point })
		if i < 0 {
			return out, false
		}
		f := finals[i]
		medians, effects = append(medians, f.Median), append(effects, f.Effect)
		out.seconds = append(out.seconds, f.seconds...)
		out.adjusted, out.rounds = append(out.adjusted, stat.Midmean(f.adjusted)), append(out.rounds, n)
	}
	out.Effect, out.Rounds = stat.Median(effects), len(out.seconds)
	out.Times = record.Times{Median: stat.Median(medians), P10: stat.Quantile(out.seconds, 0.1), P90: stat.Quantile(out.seconds, 0.9)}
	return out, true
}
