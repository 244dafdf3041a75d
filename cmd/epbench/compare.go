package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
)

type compareFlags struct {
	tables    tableFlags
	what      string
	band      float64 // 0: the wider band of the runs
	allow     string
	failOn    float64 // 0: verdicts do not change the exit code
	undecided string
}

func newCompare() *cobra.Command {
	f := &compareFlags{}
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Judge run B against run A, case by case, and fail on a regression",
		Long: `Judge run B against run A. Each case gets the ratio (time of B / time of A) with a
95 % interval and a verdict: same, faster, slower, or undecided with its reason. The
last lines give the largest possible difference of the undecided cases, and the number
of sessions that would decide them. A difference counts only if it is larger than --band
and larger than the A/A spread of both runs. The A/A spread is the difference between
equal configs in one run. Over all cases together, at most 5 % of the differences found
are chance.

With --fail-on the exit code is 0 if no case regressed, 3 if a case regressed, 4 if a
case is undecided because of few rounds or noise, and 5 if the runs are not comparable.
Without --fail-on the exit code is 0 for any verdict, and 5 if the runs are not comparable.

Two runs on a shared machine may differ for reasons that no statistics can remove.
bench --ab avoids this: it measures two configs in the same rounds.

--of swapped takes runs or recordings (replay save) of the same problems, usually from
two machines. By the times of run B, it compares A's winner with the default and with
B's winner. By the times of run A, it compares B's winner with the default and with
A's winner.
With --fail-on the exit code is 3 if a winner is slower than the default, or slower than
the other winner by more than PERCENT. It is 4 if the times do not decide this.`,
		Example: `  epbench compare before after --fail-on 3%
  epbench compare h100 h200 --allow machine --of default
  epbench compare h100 h200 --of swapped`,
		Args: exactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.undecided != "fail" && f.undecided != "warn" {
				return usagef("--undecided: unknown %q, use fail or warn", f.undecided)
			}
			if f.what == ofSwapped {
				return f.compareSwapped(cmd, args)
			}
			return f.run(cmd, args)
		},
	}
	f.bindOptions(cmd)
	cmd.Flags().Lookup("of").Usage += ", or swapped (the winner of each run, judged in the other)"
	flags(cmd, forSearch, func(s *pflag.FlagSet) {
		s.StringVar(&f.undecided, "undecided", "fail", "`ACTION` what --fail-on does with undecided cases: fail (exit 4) or warn (exit 0)")
	})
	f.tables.bind(cmd)
	return cmd
}

func (f *compareFlags) bindOptions(cmd *cobra.Command) {
	flags(cmd, forSearch, func(s *pflag.FlagSet) {
		s.StringVar(&f.what, "of", string(reports.OfWinner), "`WHICH` configs to compare: winner (of each run), default, configs (all that both runs timed)")
		percentVar(s, &f.band, "band", maxBand, "`PERCENT` least difference that counts, such as 1%; default: the wider band of the two runs; never below the A/A spread")
		s.StringVar(&f.allow, "allow", "", "`FIELDS` differences between the runs to accept: machine, kernels, mode, clock, sessions (intervals then leave out the differences between sessions)")
		percentVar(s, &f.failOn, "fail-on", maxShare, "`PERCENT` exit 3 if a case is slower by this much, such as 3%")
	})
}

func (f *compareFlags) options() (reports.CompareOptions, error) {
	o := reports.CompareOptions{What: reports.What(f.what), Allow: map[string]bool{}, Band: f.band}
	switch o.What {
	case reports.OfWinner, reports.OfDefault, reports.OfConfigs:
	default:
		return o, usagef("--of: unknown %q, use one of winner, default, configs; compare also takes swapped", f.what)
	}
	for _, name := range splitList(f.allow) {
		if !strings.Contains(" machine kernels mode clock sessions ", " "+name+" ") {
			return o, usagef("--allow: unknown %q, use one of machine, kernels, mode, clock, sessions", name)
		}
		o.Allow[name] = true
	}
	return o, nil
}

func (f *compareFlags) run(cmd *cobra.Command, args []string) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	runs, err := loadRuns(cmd, args)
	if err != nil {
		return err
	}
	c, err := reports.Compare(runs[0], runs[1], o)
	var unlike *reports.NotComparable
	if errors.As(err, &unlike) {
		return withCode(exitNotComparable, err)
	}
	if err != nil {
		return err
	}
	f.tables.lead = reports.RehearsalOf(runs)
	if err := f.tables.print(cmd, reports.ComparisonTable(c)); err != nil {
		return err
	}
	return f.gate(cmd, c)
}

// gate returns exit code 3 if a case became slower by --fail-on, and 4 if a case is undecided.
func (f *compareFlags) gate(cmd *cobra.Command, c *reports.Comparison) error {
	if f.failOn == 0 {
		return nil
	}
	g := c.Gate(f.failOn)
	if len(g.Regressed) > 0 {
		return withCode(exitWrong, fmt.Errorf("%d of %d cases are slower by %.3g%% or more; first: %s", len(g.Regressed), len(c.Cases), 100*f.failOn, describeCase(c, g.Regressed[0])))
	}
	if len(g.Unsure) == 0 {
		return nil
	}
	return f.cannotTell(cmd, fmt.Errorf("%d of %d cases may hide a slow-down of %.3g%%; first: %s", len(g.Unsure), len(c.Cases), 100*f.failOn, describeCase(c, g.Unsure[0])))
}

func (f *compareFlags) cannotTell(cmd *cobra.Command, err error) error {
	if f.undecided == "warn" {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", err)
		return nil
	}
	return withCode(exitUndecided, err)
}

func describeCase(c *reports.Comparison, i int) string {
	x := c.Cases[i]
	s := x.Case.Title()
	if x.Ratio.Mid > 0 {
		s += fmt.Sprintf(", ratio %.3f", x.Ratio.Mid)
	}
	if x.Reason != "" {
		s += ": " + x.Reason
	}
	return s
}
