package main

import (
	"io"

	"github.com/spf13/cobra"
)

// commands lists every subcommand in the order help prints them.
var commands = []func() *cobra.Command{
	newSweep,
	newBench,
	newReplay,
	newPlot,
	newReport,
	newCompare,
	newImport,
	newVerify,
	newWorkload,
	newPresets,
	newTable,
	newBackends,
	newVersion,
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "epbench",
		Short:         "Tune expert-parallel dispatch and combine, honestly",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          needSubcommand,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return badInput(err) })
	for _, c := range commands {
		root.AddCommand(c())
	}
	argsAreInput(root)
	return root
}

// needSubcommand is the body of commands that only group others: help without
// arguments, otherwise a complaint with the nearest name.
func needSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	hint := "see " + cmd.CommandPath() + " --help"
	cmd.SuggestionsMinimumDistance = 3
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + near[0] + "?"
	}
	return usagef("unknown command %q; %s", args[0], hint)
}

// argsAreInput makes wrong positional arguments exit as usage errors on every
// command.
func argsAreInput(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return badInput(check(cmd, args)) }
	}
	for _, c := range cmd.Commands() {
		argsAreInput(c)
	}
}
