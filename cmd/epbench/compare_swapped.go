package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
)

// ofSwapped is a value of --of. With it, compare judges the winners of each run by the times of the other run.
const ofSwapped = "swapped"

func (f *compareFlags) compareSwapped(cmd *cobra.Command, args []string) error {
	if err := noOtherFlags(cmd); err != nil {
		return err
	}
	var sides [2][]*record.Recording
	for i, path := range args {
		var err error
		if sides[i], err = recordingsOf([]string{path}); err != nil {
			return err
		}
	}
	var tables []reports.Table
	regressed, unsure := 0, 0
	for i := range sides {
		all := reports.Swap(sides[i], sides[1-i])
		if len(all) == 0 {
			return withCode(exitNotComparable, fmt.Errorf("not comparable: no problem and routing was decided in both %s and %s", args[0], args[1]))
		}
		t, _ := reports.SwappedTable(all, sideName(args[i], sides[i]), sideName(args[1-i], sides[1-i]))
		if warning := kernelsDiffer(sides[0], sides[1]); warning != "" {
			t.Warn("%s", warning)
		}
		tables = append(tables, t)
		regressed += losers(all, f.failOn)
		unsure += unsureOf(all, f.failOn)
	}
	if err := f.tables.print(cmd, tables...); err != nil || f.failOn == 0 {
		return err
	}
	if regressed > 0 {
		return withCode(exitWrong, fmt.Errorf("%d winners are slower than the default in the other run, or lose more than %.3g%% to its winner", regressed, 100*f.failOn))
	}
	if unsure == 0 {
		return nil
	}
	return f.cannotTell(cmd, fmt.Errorf("%d winners may lose %.3g%% in the other run: its times do not decide this", unsure, 100*f.failOn))
}

func noOtherFlags(cmd *cobra.Command) error {
	for _, name := range []string{"allow", "band"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s: has no effect with --of swapped, which compares any two machines and uses the band of each run; leave --%[1]s out", name)
		}
	}
	return nil
}

// losers counts winners of one run that fail in the other run: they are slower there than the default, or slower than
// the other run's winner by more than `share` with certainty.
func losers(all []reports.Swapped, share float64) (n int) {
	for _, c := range all {
		if c.Verdict == record.Slower || c.Loss.Low > 1+share {
			n++
		}
	}
	return n
}

// unsureOf counts the winners that may be slower by more than `share`. It leaves out those that `losers` counts.
func unsureOf(all []reports.Swapped, share float64) (n int) {
	for _, c := range all {
		if c.Verdict != record.Slower && !(c.Loss.Low > 1+share) && !(c.Loss.High <= 1+share) {
			n++
		}
	}
	return n
}

func sideName(path string, all []*record.Recording) string {
	return fmt.Sprintf("%s (%s)", path, all[0].Machine.Name)
}

func kernelsDiffer(a, b []*record.Recording) string {
	if changed := a[0].ABI.Changed(b[0].ABI); len(changed) > 0 {
		return fmt.Sprintf("kernels: the runs have different builds of %v", changed)
	}
	return ""
}
