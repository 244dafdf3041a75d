package reports

import (
	"math"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// CompareLive judges a live comparison: in each case the candidate (B) against
// the entry in the role of the default (A), by ratios within rounds. The band
// is at least what A differs from its twin by.
func CompareLive(run *record.Run, results []record.Result, band float64) *Comparison {
	l := &Loaded{Path: "live", Run: run, Cases: Cases(run, results)}
	c := &Comparison{A: l, B: l, Worst: -1}
	for _, cs := range l.Cases {
		x := Compared{Case: cs, Band: band}
		x.live(cs)
		c.Cases = append(c.Cases, x)
	}
	c.judge()
	return c
}

func (x *Compared) live(c *Case) {
	var twin *Entry
	for _, e := range c.Entries {
		switch e.Role {
		case record.Default:
			x.A = e
		case record.Twin:
			twin = e
		case record.Candidate:
			x.B = e
		}
	}
	if !x.open() {
		return
	}
	mine, theirs := common(x.B, x.A)
	x.Ratio = stat.Ratio{Interval: x.B.Ratio(x.A), StdErr: pairedErr(mine, theirs)}
	if twin != nil && twin.OK() {
		i := twin.Ratio(x.A)
		x.Band = max(x.Band, math.Abs(math.Log(i.Mid)), i.Half())
	}
	x.enough(len(mine))
}

// pairedErr is the standard error of the median log ratio.
func pairedErr(a, b []float64) float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return stat.StdErr(d)
}
