package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/tune/ep"
)

var commandGroups = []struct {
	heading string
	make    []func() *cobra.Command
}{
	{"Tune:", []func() *cobra.Command{newStart, newSweep, newBench, newInterleave, newVerify}},
	{"Read what was measured:", []func() *cobra.Command{newWatch, newReport, newPlot, newCompare, newReplay, newImport, newModel}},
	{"Ship it:", []func() *cobra.Command{newTable, newPack}},
	{"See what is there:", []func() *cobra.Command{newMachine, newBackends, newPresets, newWorkload, newTerms, newDocs, newVersion}},
}

// extra lists further commands. Files with build tags add to it.
var extra []func(root *cobra.Command) *cobra.Command

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "epbench",
		Short: "Tune expert-parallel dispatch and combine",
		Long: `Find the launch parameters with which Mixture-of-Experts dispatch and combine run
fastest on this machine, check every answer, and ship the result as a table.`,
		Example: `  epbench start                      # what is here, and which commands fit it
  epbench sweep                      # try it: any machine, less than a minute
  epbench sweep --model deepseek-v3 --tokens 1,8,128 -o run`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          needSubcommand,
		Version:       versionText(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(stdout)
	root.SetErr(wrapping(stderr, widthOf(stderr)))
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(usageTemplate)
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: g.heading, Title: g.heading})
		for _, make := range g.make {
			c := make()
			c.GroupID = g.heading
			root.AddCommand(c)
		}
	}
	for _, make := range extra {
		root.AddCommand(make(root))
	}
	last := commandGroups[len(commandGroups)-1].heading
	root.SetHelpCommand(newHelp())
	root.SetHelpCommandGroupID(last)
	root.SetCompletionCommandGroupID(last)
	prepare(root)
	return root
}

// needSubcommand prints the help, or returns an error about an unknown subcommand.
func needSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownCommand(cmd, args[0])
}

// prepare wraps the lines of help texts, for a command and its subcommands. It also makes wrong arguments cause exit
// code 2.
func prepare(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return badInput(check(cmd, args)) }
	}
	cmd.Long = fitted(cmd.Long)
	cmd.DisableFlagsInUseLine = true
	offerValues(cmd)
	for _, c := range cmd.Commands() {
		prepare(c)
	}
}

func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1:
		name := unknown.GetSpecifiedName()
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		hint := "; see " + cmd.CommandPath() + " --help"
		if near := ep.Nearest(name, known); near != "" {
			hint = "; did you mean --" + near + "?"
		}
		if name == "format" && cmd.Flags().Lookup("dtype") != nil {
			hint = "; use --dtype for the data type in which tokens are sent"
		}
		return usagef("unknown flag --%s%s", name, hint)
	case errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "percentage":
		return usagef("--%s: %w", invalid.GetFlag().Name, invalid.Unwrap())
	case errors.As(err, &invalid):
		return usagef("--%s: %q is not a %s", invalid.GetFlag().Name, invalid.GetValue(), kindOf(invalid.GetFlag()))
	}
	return badInput(err)
}

// kindOf returns a noun for a flag's values.
func kindOf(f *pflag.Flag) string {
	kinds := map[string]string{"int": "whole number", "uint64": "whole number of 0 or more", "float64": "number",
		"bool": "truth value (true or false)", "intSlice": "list of whole numbers"}
	if kind, ok := kinds[f.Value.Type()]; ok {
		return kind
	}
	return f.Value.Type()
}
