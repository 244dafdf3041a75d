package reports

import (
	"fmt"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// judge sets the missing verdicts. At most 5 % of the differences that it finds are chance (stat.JudgeAll).
func (c *Comparison) judge() {
	var open []*Compared
	var tests []stat.BandedRatio
	for i := range c.Cases {
		if x := &c.Cases[i]; x.Verdict == "" {
			open, tests = append(open, x), append(tests, stat.BandedRatio{Ratio: x.Ratio, Band: x.Band})
		}
	}
	for i, v := range stat.JudgeAll(tests) {
		x := open[i]
		x.explain(v)
		if c.A != c.B && x.A.Key != x.B.Key && x.Reason == "" {
			x.Reason = "config: " + x.Case.Label(x.A) + " in A, " + x.Case.Label(x.B) + " in B"
		}
	}
	c.summarise()
}

// explain sets the verdict and the reason. If the times differ only because the clock rates differ, the verdict is
// undecided.
func (x *Compared) explain(v record.Verdict) {
	x.Verdict = v
	differ := v == record.Faster || v == record.Slower
	switch {
	case v == record.Same && stat.Judge(x.Ratio.Interval, x.Made.Policy) != record.Same:
		x.Verdict, x.Reason = record.Undecided, "noisy: the band is "+x.Made.String()
	case differ && x.Cycles > 1/(1+x.Band) && x.Cycles < 1+x.Band:
		x.Verdict = record.Undecided
		x.Reason = fmt.Sprintf("the clocks differ, %.0f against %.0f MHz: in cycles the ratio is %.3f", x.A.MHz(), x.B.MHz(), x.Cycles)
	case v == record.Undecided:
		x.Reason = fmt.Sprintf("%+.1f to %+.1f%% against a band of %.1f%%; %s", 100*(x.Ratio.Low-1), 100*(x.Ratio.High-1), 100*x.Band, x.advice())
	}
}

// most returns the largest difference between A and B that the interval allows, as a fraction.
func (x *Compared) most() float64 { return max(x.Ratio.High, 1/x.Ratio.Low) - 1 }

// reach returns half the interval's width, as a fraction.
func (x *Compared) reach() float64 { return math.Sqrt(x.Ratio.High/x.Ratio.Low) - 1 }

const maxAdvice = 5000

// advice says how many rounds or sessions would give a verdict.
func (x *Compared) advice() string {
	if x.unknownSessions {
		return "with one session in each run, the difference between sessions is unknown: measure with --sessions 12"
	}
	if x.Ratio.Sessions > 1 {
		return adviseSessions(x.sessionsNeeded())
	}
	n := float64(min(len(x.A.Times), len(x.B.Times)))
	times := 2 * 1.96 * x.Ratio.StdErr() / math.Log1p(x.Band)
	need := int(math.Ceil(n*max(1.1, times*times)/10) * 10)
	if need > maxAdvice {
		return "this machine is too noisy to decide"
	}
	return fmt.Sprintf("about %d rounds would decide", need)
}

const mostSessions = 100

// sessionsNeeded returns how many sessions of each run would make the interval as narrow as the band.
func (x *Compared) sessionsNeeded() int {
	return max(x.Ratio.Sessions+1, x.Ratio.SessionsFor(math.Log1p(x.Band)/2, mostSessions))
}

func adviseSessions(need int) string {
	if need > mostSessions {
		return "the sessions of this machine differ too much for a verdict"
	}
	return fmt.Sprintf("about %d sessions in each run would decide (bench --sessions)", need)
}

// resolution describes the intervals of the undecided cases, and says how many sessions would decide these cases.
func (c *Comparison) resolution() string {
	var most, reach, need, band []float64
	for _, x := range c.Cases {
		if x.Verdict == record.Undecided && x.Ratio.Low > 0 && x.Ratio.Sessions > 1 {
			most, reach, band = append(most, x.most()), append(reach, x.reach()), append(band, x.Band)
			need = append(need, float64(x.sessionsNeeded()))
		}
	}
	if len(most) == 0 || c.same {
		return ""
	}
	return fmt.Sprintf(" In each undecided case, A and B differ by at most %.1f%%; in half of these cases, by at most %.1f%%. Their intervals reach %.1f%% to each side (median), and the band is %.1f%%: %s.",
		100*slices.Max(most), 100*stat.Median(most), 100*stat.Median(reach), 100*stat.Median(band), adviseSessions(int(math.Ceil(stat.Median(need)))))
}

func (c *Comparison) summarise() {
	var ratios []record.Interval
	for i, x := range c.Cases {
		if math.IsNaN(x.Ratio.Mid) || x.Ratio.Mid == 0 {
			continue
		}
		ratios = append(ratios, x.Ratio.Interval)
		if c.Worst < 0 || x.Ratio.Mid > c.Cases[c.Worst].Ratio.Mid {
			c.Worst = i
		}
	}
	c.Geomean = stat.GeoMean(ratios)
}

// Gate lists the cases of a comparison that became slower.
type Gate struct {
	Regressed []int // indexes of slower cases
	Unsure    []int // indexes of cases that may be slower
}

// Gate judges the cases by a limit. The limit `fail` is a fraction: 0.03 means that B takes 3 % longer than A. A case
// has regressed if B failed, or if its verdict is "slower" and its ratio is 1+fail or more. A case with the verdict
// "same" or "undecided" is unsure, unless Compared.resolves returns true for it.
func (c *Comparison) Gate(fail float64) Gate {
	var g Gate
	for i, x := range c.Cases {
		switch {
		case x.Broken || x.Verdict == record.Slower && x.Ratio.Mid >= 1+fail:
			g.Regressed = append(g.Regressed, i)
		case x.Verdict == record.Slower || x.Verdict == record.Faster:
		case x.resolves(fail):
		default:
			g.Unsure = append(g.Unsure, i)
		}
	}
	return g
}

// resolves reports whether x has enough rounds, a ratio below 1+fail, and an interval that reaches less than `fail` to
// each side.
func (x *Compared) resolves(fail float64) bool {
	if x.A == nil || x.B == nil || min(len(x.A.Times), len(x.B.Times)) < MinRounds {
		return false
	}
	return x.Ratio.Mid < 1+fail && 1.96*x.Ratio.StdErr() < math.Log1p(fail)
}

// CompareLive judges a run whose default (A) and candidate (B) took turns. The band of a case is `band`, or the
// difference between two measurements of A if that is larger.
func CompareLive(run *record.Run, results []record.Result, band float64) *Comparison {
	l := &Loaded{Path: "live", Run: run, Cases: Cases(run, results)}
	c := &Comparison{A: l, B: l, Worst: -1, live: true}
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
	if !x.needsStatistics() {
		return
	}
	x.Ratio = x.B.Ratio(x.A)
	made := record.Band{Policy: x.Band}
	if twin != nil && twin.OK() {
		made.AA = stat.AASpread(twin.Ratio(x.A).Interval)
	}
	x.Band, x.Made = made.Width(), made
	if why := stat.Noisy(x.Ratio, made); why != "" {
		x.Verdict, x.Reason = record.Undecided, "noisy: "+why
	}
	x.requireRounds(x.Ratio.Rounds)
}
