package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
)

// ofSwapped is the value of --of that judges the winner of each run in the other.
const ofSwapped = "swapped"

// compareSwapped is compare --of swapped: both directions, from runs or recordings.
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
		return withCode(exitWrong, fmt.Errorf("%d winners are slower than the default in the other run, or lose more than %.3g%% there", regressed, 100*f.failOn))
	}
	if unsure == 0 {
		return nil
	}
	return f.cannotTell(cmd, fmt.Errorf("of %d winners it cannot be told whether they lose %.3g%% in the other run", unsure, 100*f.failOn))
}

// noOtherFlags refuses flags of compare that this comparison would pass over.
func noOtherFlags(cmd *cobra.Command) error {
	for _, name := range []string{"allow", "band"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s: has no effect with --of swapped, which takes any two machines and each run's own band; drop it", name)
		}
	}
	return nil
}

// losers counts the winners that are slower than the default in the other run, or surely
// lose more than a share to the winner there.
func losers(all []reports.Swapped, share float64) (n int) {
	for _, c := range all {
		if c.Verdict == record.Slower || c.Loss.Low > 1+share {
			n++
		}
	}
	return n
}

// unsureOf counts the winners that are no losers and may still lose more than a share.
func unsureOf(all []reports.Swapped, share float64) (n int) {
	for _, c := range all {
		if c.Verdict != record.Slower && !(c.Loss.Low > 1+share) && !(c.Loss.High <= 1+share) {
			n++
		}
	}
	return n
}

// sideName is a path with its machine.
func sideName(path string, all []*record.Recording) string {
	return fmt.Sprintf("%s (%s)", path, all[0].Machine.Name)
}

// kernelsDiffer warns of runs with different builds: their times differ for more reasons
// than the machine.
func kernelsDiffer(a, b []*record.Recording) string {
	if changed := a[0].ABI.Changed(b[0].ABI); len(changed) > 0 {
		return fmt.Sprintf("kernels: built differently: %v", changed)
	}
	return ""
}
