package reports

import (
	"fmt"
	"math"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// judge gives the verdicts that need all cells.
func (c *Comparison) judge() {
	var open []*Compared
	var tests []stat.Compared
	for i := range c.Cells {
		if x := &c.Cells[i]; x.Verdict == "" {
			open, tests = append(open, x), append(tests, stat.Compared{Ratio: x.Ratio, Band: x.Band})
		}
	}
	for i, v := range stat.JudgeAll(tests) {
		x := open[i]
		x.explain(v)
		if c.A != c.B && x.A.Key != x.B.Key && x.Reason == "" {
			x.Reason = "config: " + x.Case.Short(x.A).Text + " in A, " + x.Case.Short(x.B).Text + " in B"
		}
	}
	c.summarise()
}

// explain sets the verdict and says why it is undecided. A difference that
// vanishes in SM cycles is one of clocks, not of programs.
func (x *Compared) explain(v record.Verdict) {
	x.Verdict = v
	differ := v == record.Faster || v == record.Slower
	switch {
	case differ && x.Cycles > 1/(1+x.Band) && x.Cycles < 1+x.Band:
		x.Verdict = record.Undecided
		x.Reason = fmt.Sprintf("the clocks differ, %.0f against %.0f MHz: in cycles the ratio is %.3f", x.A.MHz(), x.B.MHz(), x.Cycles)
	case v == record.Undecided:
		x.Reason = fmt.Sprintf("%+.1f to %+.1f%% against a band of %.1f%%; %s", 100*(x.Ratio.Low-1), 100*(x.Ratio.High-1), 100*x.Band, x.advice())
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
	c.Geomean = record.Interval{Mid: math.Exp(mean), Low: math.Exp(mean - half), High: math.Exp(mean + half)}
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

// resolves reports whether a slow-down of fail would have shown.
func (x *Compared) resolves(fail float64) bool {
	return x.A != nil && x.B != nil && min(len(x.A.Times), len(x.B.Times)) >= MinRounds &&
		x.Ratio.Mid < 1+fail && 1.96*x.Ratio.StdErr < math.Log1p(fail)
}
