package reports

import (
	"fmt"
	"math"

	"github.com/epbench/epbench/tune/stat"
)

// discovery is the share of calls that may be false, over all cells of a
// comparison.
const discovery = 0.05

// judge gives the verdicts that need all cells: chance is controlled over the
// whole comparison.
func (c *Comparison) judge() {
	ps := make([]float64, len(c.Cells))
	for i, x := range c.Cells {
		ps[i] = math.NaN()
		if x.Verdict == "" {
			beyond := math.Abs(math.Log(x.Ratio.Mid)) - math.Log1p(x.Band)
			ps[i] = min(1, 2*stat.UpperP(beyond, x.Ratio.StdErr))
		}
	}
	sure := stat.BenjaminiHochberg(ps, discovery)
	for i := range c.Cells {
		if x := &c.Cells[i]; x.Verdict == "" {
			x.decide(sure[i])
			if c.A != c.B && x.A.Key != x.B.Key && x.Reason == "" {
				x.Reason = "config: " + x.Case.Short(x.A).Text + " in A, " + x.Case.Short(x.B).Text + " in B"
			}
		}
	}
	c.summarise()
}

// decide gives the verdict of a cell with enough rounds; sure says that its
// difference beyond the band is not chance.
func (x *Compared) decide(sure bool) {
	lo, hi := 1/(1+x.Band), 1+x.Band
	switch {
	case sure && x.Cycles > lo && x.Cycles < hi:
		x.Verdict = VerdictUndecided
		x.Reason = fmt.Sprintf("the clocks differ, %.0f against %.0f MHz: in cycles the ratio is %.3f", x.A.MHz(), x.B.MHz(), x.Cycles)
	case sure && x.Ratio.Mid > 1:
		x.Verdict = VerdictSlower
	case sure:
		x.Verdict = VerdictFaster
	case x.Ratio.Lo > lo && x.Ratio.Hi < hi:
		x.Verdict = VerdictSame
	default:
		x.Verdict = VerdictUndecided
		x.Reason = fmt.Sprintf("%+.1f to %+.1f%% against a band of %.1f%%; %s", 100*(x.Ratio.Lo-1), 100*(x.Ratio.Hi-1), 100*x.Band, x.advice())
	}
}

// maxAdvice is the number of rounds beyond which waiting is no advice.
const maxAdvice = 5000

// advice estimates the rounds after which the interval is as wide as half the
// band: its width falls with their square root.
func (x *Compared) advice() string {
	n := float64(min(len(x.A.Times), len(x.B.Times)))
	times := 2 * 1.96 * x.Ratio.StdErr / math.Log1p(x.Band)
	need := int(math.Ceil(n*max(1.1, times*times)/10) * 10)
	if need > maxAdvice {
		return "this machine is too noisy to tell"
	}
	return fmt.Sprintf("about %d rounds would tell", need)
}

func (c *Comparison) summarise() {
	sum, variance, n := 0.0, 0.0, 0
	for i, x := range c.Cells {
		if math.IsNaN(x.Ratio.Mid) || x.Ratio.Mid == 0 {
			continue
		}
		sum, n = sum+math.Log(x.Ratio.Mid), n+1
		if !math.IsNaN(x.Ratio.StdErr) {
			variance += x.Ratio.StdErr * x.Ratio.StdErr
		}
		if c.Worst < 0 || x.Ratio.Mid > c.Cells[c.Worst].Ratio.Mid {
			c.Worst = i
		}
	}
	mean, half := sum/float64(n), 1.96*math.Sqrt(variance)/float64(n)
	c.Geomean = stat.Interval{Mid: math.Exp(mean), Lo: math.Exp(mean - half), Hi: math.Exp(mean + half)}
}

// Gate is the answer of a comparison to "did anything get slower by fail or
// more?".
type Gate struct {
	Regressed []int // cells that did
	Unsure    []int // cells that may have
}

// Gate judges the cells against a threshold, a fraction such as 0.03. A cell
// has regressed when it is SLOWER and its ratio reaches the threshold. It is
// unsure when its measurement could not have told: too few rounds, an interval
// wider than the threshold to either side, or a ratio that reaches the
// threshold without being sure. It is not asked to exclude the threshold: one
// interval in many reaches far by chance, and a gate that cries undecided on
// identical programs is soon switched off.
func (c *Comparison) Gate(fail float64) Gate {
	var g Gate
	for i, x := range c.Cells {
		switch {
		case x.Broken || x.Verdict == VerdictSlower && x.Ratio.Mid >= 1+fail:
			g.Regressed = append(g.Regressed, i)
		case x.Verdict == VerdictSlower || x.Verdict == VerdictFaster:
		case x.resolves(fail):
		default:
			g.Unsure = append(g.Unsure, i)
		}
	}
	return g
}

// resolves reports whether a slow-down of fail would have shown.
func (x *Compared) resolves(fail float64) bool {
	return x.A != nil && x.B != nil && min(len(x.A.Times), len(x.B.Times)) >= MinRounds &&
		x.Ratio.Mid < 1+fail && 1.96*x.Ratio.StdErr < math.Log1p(fail)
}
