package reports

import (
	"fmt"
	"math"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// CompareLive judges a live comparison: in each case the candidate (B) against
// the entry in the role of the default (A), round by round, with a band no
// finer than A against its twin in the same rounds.
func CompareLive(run *record.Run, results []record.Result, band float64) *Comparison {
	l := &Loaded{Path: "live", Run: run, Cases: Cases(run, results)}
	c := &Comparison{A: l, B: l, Worst: -1}
	for _, cs := range l.Cases {
		x := Compared{Case: cs, Band: band}
		x.noRatio()
		x.live(cs)
		c.Cells = append(c.Cells, x)
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
	if failed := firstFailed(x.A, x.B); failed != nil {
		x.Verdict, x.Reason = record.Undecided, failed.Key+": "+failure(failed)
		x.Broken = failed == x.B
		return
	}
	if x.A == nil || x.B == nil {
		x.Verdict, x.Reason = record.Undecided, "one side has no times"
		return
	}
	mine, theirs := common(x.B, x.A)
	x.Ratio = stat.Ratio{Interval: x.B.Ratio(x.A), StdErr: pairedErr(mine, theirs)}
	if twin != nil && twin.OK() {
		i := twin.Ratio(x.A)
		x.Band = max(x.Band, math.Abs(math.Log(i.Mid)), i.Half())
	}
	if len(mine) < MinRounds {
		x.Verdict, x.Reason = record.Undecided, fmt.Sprintf("%d rounds, at least %d are needed", len(mine), MinRounds)
	}
}

func firstFailed(entries ...*Entry) *Entry {
	for _, e := range entries {
		if e != nil && !e.OK() {
			return e
		}
	}
	return nil
}

// pairedErr is the standard error of the median log ratio.
func pairedErr(a, b []float64) float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return stat.StdErr(d)
}
