package main

import (
	"io"

	"github.com/spf13/cobra"
)

// commands lists every subcommand in the order help prints them.
var commands = []func() *cobra.Command{
	newVersion,
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "epbench",
		Short:         "Tune expert-parallel dispatch and combine, honestly",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return badInput(err) })
	for _, c := range commands {
		root.AddCommand(c())
	}
	return root
}
