package reports

import (
	"fmt"
	"math"

	"github.com/epbench/epbench/tune/stat"
)

// Winners lists what to ship for every case, with its gain over the default.
func Winners(l *Loaded) Table {
	p := ColumnsFor(l.Cases)
	t := Table{Name: "winners", Title: "Winners: what to launch", Columns: p.Columns}
	t.Columns = append(t.Columns,
		Words("config"), Numbers("median", "us"), Numbers("low", "us").Dropped(6), Numbers("high", "us").Dropped(5),
		Numbers("gain", "x"), Numbers("from", "x").Dropped(3), Numbers("to", "x").Dropped(2),
		Numbers("ties", "").Dropped(7), Numbers("rounds", "").Dropped(8), Words("clock").Dropped(9))
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
		t.Add(append(p.Cells(c), Str(e.Label()), Micros(e.Median.Mid), Micros(e.Median.Lo), Micros(e.Median.Hi),
			gainCell(choice.Gain.Mid, choice.Gain, c.Floor()), Float(choice.Gain.Lo, 3), Float(choice.Gain.Hi, 3),
			Int(choice.Ties), Int(len(e.Times)), Str(e.Clock))...)
	}
	t.Note(p.Shared,
		"Median over rounds of the slowest rank, with its 95 % interval; gain is the default's time over this one's in the same rounds.")
	if unconfirmed > 0 && unconfirmed < len(t.Rows) || unconfirmed > 0 && len(l.Results) > 0 && hasStage(l, "screen") {
		t.Warn("%d of %d winners were not confirmed on fresh rounds; their times flatter them", unconfirmed, len(t.Rows))
	}
	t.Warnings = append(t.Warnings, l.Warnings...)
	return t
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
	if h.Cases == 0 {
		return "Nothing measured here can be trusted."
	}
	s := fmt.Sprintf("%d of %d cases are faster than the default beyond the noise; the default stays in %d.", h.Faster, h.Cases, h.Kept)
	if !math.IsNaN(h.Geomean) {
		s += fmt.Sprintf(" Gain %.3fx as a geometric mean, %.3fx at most (%s).", h.Geomean, h.Best, h.BestAt.Title())
	}
	if h.AA > 0 {
		s += fmt.Sprintf(" The default against itself varies by %.1f %%: smaller differences mean nothing.", 100*h.AA)
	}
	return s
}
