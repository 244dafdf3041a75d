package reports

import (
	"fmt"
	"math"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/stat"
)

// Winners lists what to ship for every case, with its gain over the default.
func Winners(l *Loaded) Table {
	p := ColumnsFor(l.Cases)
	t := Table{Name: "winners", Title: "Winners: what to launch", Columns: p.Columns}
	t.Columns = append(t.Columns,
		Words("config"), Numbers("median", "us"), Numbers("low", "us").Dropped(5), Numbers("high", "us").Dropped(5),
		Numbers("gain", "x"), Numbers("at least", "x").Dropped(3), Numbers("at most", "x").Dropped(3),
		Numbers("error", "%").Dropped(6), Numbers("ties", "").Dropped(7), Numbers("rounds", "").Dropped(8), Words("clock").Dropped(9))
	unconfirmed := 0
	for _, c := range l.Cases {
		choice, ok := c.Choose()
		if !ok {
			t.Warn("%s: nothing measured there can be trusted", c.Title())
			continue
		}
		e := choice.Entry
		if !e.Fresh {
			unconfirmed++
		}
		t.Add(append(p.Cells(c), c.Short(e), Micros(e.Median.Mid), Micros(e.Median.Lo), Micros(e.Median.Hi),
			gainCell(choice.Gain.Mid, choice.Gain, c.Floor()), Float(choice.Gain.Lo, 3), Float(choice.Gain.Hi, 3),
			Float(100*e.maxErr(), 3), Int(choice.Ties), Int(len(e.Times)), Str(e.Clock))...)
	}
	t.Note(p.Shared,
		"Median over rounds of the slowest rank, with its 95 % interval; gain is the default's time over this one's in the same rounds.",
		"Error: the largest seen against the oracle, relative to the row's largest magnitude.")
	t.Note(DefaultNotes(l.Cases)...)
	if unconfirmed > 0 && unconfirmed < len(t.Rows) || unconfirmed > 0 && len(l.Results) > 0 && hasStage(l, "screen") {
		t.Warn("%d of %d winners were not confirmed on fresh rounds; their times flatter them", unconfirmed, len(t.Rows))
	}
	if n := zeroTimes(l.Cases); n > 0 {
		t.Warn("%d configurations read a time of 0 and were left out: the clock is too coarse, fold more calls", n)
	}
	t.Warnings = append(t.Warnings, l.Warnings...)
	return t
}

// maxErr is the largest error of all comparisons with the oracle.
func (e *Entry) maxErr() float64 {
	worst := 0.0
	for _, b := range e.Blocks {
		worst = max(worst, b.MaxErr)
	}
	return worst
}

// zeroTimes counts the entries whose median is 0.
func zeroTimes(cases []*Case) int {
	n := 0
	for _, c := range cases {
		for _, e := range c.Entries {
			if e.Status == ep.OK && len(e.Times) > 0 && e.Median.Mid <= 0 {
				n++
			}
		}
	}
	return n
}

func hasStage(l *Loaded, stage string) bool {
	for i := range l.Results {
		if l.Results[i].Stage == stage {
			return true
		}
	}
	return false
}

// gainCell marks gains that stand outside what the default varies against
// itself.
func gainCell(v float64, i stat.Interval, floor float64) Cell {
	c := Float(v, 3)
	switch {
	case i.Lo > 1+max(floor, TieBand):
		return c.Marked(Good)
	case i.Hi < 1/(1+max(floor, TieBand)):
		return c.Marked(Bad)
	}
	return c
}

// Headline is the run in one sentence: how much is gained where, and how sure.
type Headline struct {
	Cases   int     // with a choice
	Faster  int     // whose gain stands outside the noise
	Kept    int     // where the default stays
	Geomean float64 // of all gains, NaN when there is no default
	Best    float64 // greatest gain
	BestAt  *Case
	AA      float64 // widest A/A spread
}

// Summarise computes the headline of a run.
func Summarise(l *Loaded) Headline {
	var h Headline
	sum, n := 0.0, 0
	for _, c := range l.Cases {
		h.AA = max(h.AA, c.Floor())
		choice, ok := c.Choose()
		if !ok {
			continue
		}
		h.Cases++
		if choice.KeptDefault() {
			h.Kept++
		}
		g := choice.Gain
		if math.IsNaN(g.Mid) {
			continue
		}
		if g.Lo > 1+max(c.Floor(), TieBand) {
			h.Faster++
		}
		if g.Mid > h.Best {
			h.Best, h.BestAt = g.Mid, c
		}
		sum, n = sum+math.Log(g.Mid), n+1
	}
	h.Geomean = math.Exp(sum / float64(n))
	return h
}

// String says it in a sentence or two.
func (h Headline) String() string {
	var s string
	switch {
	case h.Cases == 0:
		return "Nothing measured here can be trusted."
	case math.IsNaN(h.Geomean):
		s = fmt.Sprintf("%d cases were measured, none against a default.", h.Cases)
	case h.Faster == 0 && h.Kept == h.Cases:
		s = fmt.Sprintf("Keep the default: nothing beats it beyond the noise in any of %d cases.", h.Cases)
	default:
		s = fmt.Sprintf("Tuning is faster than the default beyond the noise in %d of %d cases; the default stays in %d. The gain is %.3fx as a geometric mean over all, %.2fx at best (%s).",
			h.Faster, h.Cases, h.Kept, h.Geomean, h.Best, h.BestAt.Title())
	}
	if h.AA > 0 {
		s += fmt.Sprintf(" The default against itself varies by up to %.1f%%: smaller differences mean nothing.", 100*h.AA)
	}
	return s
}
