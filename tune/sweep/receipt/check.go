package receipt

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/workloads"
)

// Stage is the stage name of the rounds a check measures.
const Stage = "verify"

// Checker measures rows on one backend by the protocol that tuned them: the
// answer compared with the oracle, an A/A test, interleaved rounds of default
// and row, the slowest rank of each round, the median over rounds.
type Checker struct {
	Backend kernels.Backend
	Policy  measure.Policy
	MaxSMs  int // of the table: the default is compared with on no more
	Seed    uint64
}

// Pick chooses k rows to check, spread evenly over those that leave the
// default; k of 0 takes all of them.
func Pick(t *table.Table, k int) []*table.Row {
	var all []*table.Row
	for i := range t.Rows {
		if !t.Header.IsDefault(t.Rows[i]) {
			all = append(all, &t.Rows[i])
		}
	}
	if k == 0 || k >= len(all) {
		return all
	}
	out := make([]*table.Row, k)
	for i := range out {
		out[i] = all[(2*i+1)*len(all)/(2*k)]
	}
	return out
}

// Row checks one row: under the first routing of its evidence, a minimax row
// under each. An error means that the machine is lost; whatever is wrong with
// the row is a verdict.
func (c *Checker) Row(ctx context.Context, r *table.Row) ([]Check, error) {
	specs := r.Evidence.Routings
	if r.Key.Routing != ep.AllRoutings && len(specs) > 1 {
		specs = specs[:1]
	}
	var out []Check
	for _, spec := range specs {
		check := Check{
			Key: r.Key, Tokens: tokensOf(r), Routing: spec, Config: r.Config,
			Claimed: r.Evidence.Gain, ClaimedLo: r.Evidence.GainLow, ClaimedHi: r.Evidence.GainHigh,
		}
		if err := c.measure(ctx, &check); err != nil {
			return out, err
		}
		out = append(out, check)
	}
	return out, nil
}

// tokensOf is the largest token count that the row was measured at.
func tokensOf(r *table.Row) int {
	for _, n := range slices.Backward(r.Evidence.Tokens) {
		if r.Lo <= n && n <= r.Hi {
			return n
		}
	}
	return r.Hi
}

func (c *Checker) measure(ctx context.Context, check *Check) error {
	runner, point, err := c.runner(check)
	if err != nil {
		check.Verdict, check.Reason = Failed, err.Error()
		return nil
	}
	defer runner.Close()
	aa, err := runner.AA(ctx, 0)
	if errors.Is(err, measure.ErrDefault) {
		check.Verdict, check.Reason = Undecided, "the default does not run here"
		return nil
	}
	if err != nil {
		return err
	}
	check.AA, check.Clock = aa.Spread, runner.Clock()
	hunt := search.NewHunt(runner.Space, runner, search.Budget{}, runner.Default, nil, rand.New(rand.NewPCG(c.Seed, 0)))
	row, dflt, err := hunt.Duel(ctx, Stage, point, max(c.Policy.Confirm.MaxRounds, aa.Rounds))
	if err != nil && !errors.Is(err, search.ErrDefault) {
		return err
	}
	check.Rounds = row.Rounds
	if f := runner.Failures()[point]; f != nil {
		check.Verdict, check.Reason = Failed, f.Error()
		return nil
	}
	check.judge(row.Gain(dflt, runner.Seed("gain")), c.Policy.Band)
	return nil
}

// runner opens the way to a row and the default side by side.
func (c *Checker) runner(check *Check) (*measure.Runner, int, error) {
	problem := check.Key.Problem(check.Tokens)
	known := kernels.Of(c.Backend.Kernels(), problem.Op)
	if len(known) == 0 {
		return nil, 0, fmt.Errorf("this backend has no %s kernel", problem.Op)
	}
	k, err := kernels.Find(c.Backend.Kernels(), problem.Op, check.Config.Kernel)
	if err != nil {
		return nil, 0, err
	}
	if err := k.Check(c.Backend.Machine(), problem, check.Config); err != nil {
		return nil, 0, err
	}
	d, err := workloads.Parse(check.Routing)
	if err != nil {
		return nil, 0, fmt.Errorf("routing %s: %w", check.Routing, err)
	}
	w, err := workloads.New(d, problem, c.Seed)
	if err != nil {
		return nil, 0, err
	}
	space, _, err := search.NewSpace()
	if err != nil {
		return nil, 0, err
	}
	dflt := space.Add(known[0].DefaultWithin(c.Backend.Machine(), problem, c.MaxSMs))
	point := space.Add(check.Config)
	return &measure.Runner{
		Backend: c.Backend, Workload: w, Space: space, Default: dflt, Policy: c.Policy,
		Log: unlogged{}, Profile: &measure.Profile{},
	}, point, nil
}

// unlogged drops trials: a receipt holds what a check says, and nothing
// resumes one.
type unlogged struct{}

func (unlogged) Append([]record.Result, float64) error { return nil }

// judge compares the measured gain with 1 and with the claim. A machine whose
// default differs from itself by more than the band decides nothing.
func (c *Check) judge(gain stat.Interval, band float64) {
	c.Gain, c.GainLo, c.GainHi = gain.Mid, gain.Lo, gain.Hi
	switch {
	case c.AA > band:
		c.Verdict, c.Reason = Undecided, fmt.Sprintf("the default differs from itself by %.1f %%, more than the band of %.1f %%", 100*c.AA, 100*band)
	case gain.Hi < 1:
		c.Verdict, c.Reason = Slower, fmt.Sprintf("%.1f %% slower than the default", 100*(1/gain.Mid-1))
	case gain.Lo <= 1:
		c.Verdict, c.Reason = Undecided, "the interval of the gain holds 1"
	case gain.Hi < c.ClaimedLo:
		c.Verdict, c.Reason = Shrunk, fmt.Sprintf("gain below the claimed %.3f [%.3f, %.3f]", c.Claimed, c.ClaimedLo, c.ClaimedHi)
	default:
		c.Verdict = Holds
	}
}
