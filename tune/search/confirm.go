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

// step is how many rounds are measured between two decisions.
const step = 10

// Finalist is a point with what fresh samples say about it. Times are seconds
// of one call.
type Finalist struct {
	Point int
	record.Times
	Rounds   int
	Effect   float64 // log of its time over the default's, rounds cleared
	Warnings []string

	clear  []float64 // log times less their rounds' effect, by time
	rounds []int     // of clear
}

// Confirm measures the best points, the required ones and any extra ones on
// fresh samples only, and returns those that lived, fastest first. Points that
// are clearly outside the band drop out early; the default stays.
func (h *Hunt) Confirm(ctx context.Context, p Protocol, stage record.Stage, extra ...int) ([]Finalist, error) {
	live := h.finalists(p)
	for _, i := range extra {
		if !slices.Contains(live, i) {
			live = append(live, i)
		}
	}
	return h.Settle(ctx, p, stage, live)
}

// Settle is Confirm for given points.
func (h *Hunt) Settle(ctx context.Context, p Protocol, stage record.Stage, live []int) ([]Finalist, error) {
	f := NewHunt(h.Space, h.eval, Budget{}, h.Default, live, h.Rand)
	for _, i := range live {
		f.dead[i] = h.dead[i]
	}
	defer func() { h.spent += f.spent }()
	for done := 0; done < p.MaxRounds; {
		n := min(step, p.MaxRounds-done)
		if done == 0 {
			n = min(p.MinRounds, p.MaxRounds)
		}
		if err := f.Measure(ctx, stage, live, n); err != nil {
			return nil, err
		}
		done += n
		var open bool
		if live, open = f.undecided(live, p.Band); !open || h.outOfTime() {
			break
		}
	}
	for i := range f.dead {
		h.dead[i] = h.dead[i] || f.dead[i]
	}
	return f.summarise(), nil
}

// finalists are the points to confirm, fewer when time is short.
func (h *Hunt) finalists(p Protocol) []int {
	n := p.Finalists
	if h.Timed() && h.spent > 0 {
		left := h.budget.Time - spent(h.eval)
		each := time.Duration(float64(spent(h.eval)) / float64(h.spent))
		n = max(3, min(n, int(left/max(each*time.Duration(p.MinRounds), 1))))
	}
	return h.Keep(h.Measured(), n)
}

// Duel measures the chosen point against the default once more. Having been
// chosen makes a point look faster than it is; rounds that had no part in the
// choice do not, so times and gains are reported from these.
func (h *Hunt) Duel(ctx context.Context, stage record.Stage, chosen, rounds int) (winner, dflt Finalist, err error) {
	f := NewHunt(h.Space, h.eval, Budget{}, h.Default, []int{chosen}, h.Rand)
	if err := f.Measure(ctx, stage, []int{chosen}, rounds); err != nil {
		return winner, dflt, err
	}
	h.spent += f.spent
	for _, x := range f.summarise() {
		if x.Point == chosen {
			winner = x
		}
		if x.Point == h.Default {
			dflt = x
		}
	}
	if winner.Rounds == 0 {
		h.dead[chosen] = true
	}
	return winner, dflt, nil
}

func (h *Hunt) outOfTime() bool {
	return h.Timed() && spent(h.eval) > h.budget.Time
}

// undecided drops what is clearly slower than the best, the default aside, and
// reports whether any comparison with the best is still open. Two standard
// errors decide.
func (h *Hunt) undecided(live []int, band float64) (rest []int, open bool) {
	fs := h.cleared()
	if len(fs) == 0 {
		return nil, false
	}
	best := fs[0]
	for _, f := range fs {
		if !slices.Contains(live, f.Point) {
			continue
		}
		doubt := 2 * best.doubt(f)
		diff := f.Effect - best.Effect
		slower := diff-doubt > math.Log1p(band)
		if slower && f.Point != h.Default {
			continue
		}
		rest = append(rest, f.Point)
		open = open || !slower && f.Point != best.Point && diff+doubt > math.Log1p(band)
	}
	return rest, open
}

// cleared is every living point with its samples cleared of their rounds,
// fastest first.
func (h *Hunt) cleared() []Finalist {
	_, round := stat.Polish(h.obs, h.dense[h.Default])
	all := make([]Finalist, len(h.points))
	for _, o := range h.obs {
		f := &all[o.Item]
		f.clear = append(f.clear, o.Log-round[o.Round])
		f.rounds = append(f.rounds, o.Round)
	}
	var out []Finalist
	for k, f := range all {
		if f.Point = h.points[k]; !h.dead[f.Point] && len(f.clear) > 0 {
			f.Effect = stat.Midmean(f.clear)
			out = append(out, f)
		}
	}
	if k, ok := h.dense[h.Default]; ok {
		base := stat.Midmean(all[k].clear)
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
func (h *Hunt) summarise() []Finalist {
	raw := make([][]float64, len(h.points))
	for _, o := range h.obs {
		raw[o.Item] = append(raw[o.Item], math.Exp(o.Log))
	}
	fs := h.cleared()
	for i := range fs {
		f := &fs[i]
		xs := raw[h.dense[f.Point]]
		f.Times = record.Times{Median: stat.Median(xs), P10: stat.Quantile(xs, 0.1), P90: stat.Quantile(xs, 0.9)}
		f.Rounds, f.Warnings = len(xs), stat.Warnings(xs)
	}
	return fs
}

// Gain is the time of dflt over that of f, over the rounds that both were in,
// with its bootstrap interval.
func (f Finalist) Gain(dflt Finalist, seed uint64) record.Interval {
	if f.Point == dflt.Point {
		return record.One
	}
	var a, b []float64
	for i, r := range f.rounds {
		if k, ok := slices.BinarySearch(dflt.rounds, r); ok {
			a, b = append(a, dflt.clear[k]), append(b, f.clear[i])
		}
	}
	return stat.MedianRatio(a, b, seed)
}
