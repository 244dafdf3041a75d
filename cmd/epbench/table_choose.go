package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
)

func newTableChoose() *cobra.Command {
	var out tableFlags
	var filter runFilter
	cmd := &cobra.Command{
		Use:   "choose RUN...",
		Short: "Print the fastest library for each token count",
		Long: `Compare the winners of several libraries, each tuned in a run of its own on the same
machine. Only equal work is compared: the rows have the same layout, tokens are summed
in the same way, the times include the same parts, and the clock is the same. Runs of
different machines are refused.`,
		Example: `  epbench table choose dsv3-deepep dsv3-nccl dsv3-epbench
  epbench table choose dsv3-* --op pair --routing uniform,hotrank
  epbench table choose dsv3-* --format markdown`,
		Args: minArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error {
			runs, err := filter.load(cmd, paths)
			if err != nil {
				return err
			}
			choices, err := reports.CompareLibraries(runs)
			if err != nil {
				return withCode(exitNotComparable, err)
			}
			if len(choices) == 0 {
				return usagef("these runs have no measured configs")
			}
			out.lead = reports.RehearsalOf(runs)
			return out.print(cmd, reports.FastestTable(choices))
		},
	}
	flags(cmd, forProblem, func(s *pflag.FlagSet) { filter.bind(s) })
	out.bind(cmd)
	return cmd
}
