package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/tune/ep"
)

func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return unknownCommand(cmd, args[0])
	}
	return usagef("%s takes no argument; given: %s", plainPath(cmd), given(args))
}

func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return usagef("%s needs %s, %s; given: %s", plainPath(cmd), ep.Count(n, "argument"), wanted(cmd), given(args))
	}
}

func minArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= n {
			return nil
		}
		return usagef("%s needs %s or more, %s; given: %s", plainPath(cmd), ep.Count(n, "argument"), wanted(cmd), given(args))
	}
}

func wanted(cmd *cobra.Command) string {
	_, names, _ := strings.Cut(cmd.Use, " ")
	return names
}

// given returns the arguments as text, cut to 200 characters.
func given(args []string) string {
	if len(args) == 0 {
		return "none"
	}
	text := []rune(strings.Join(args, " "))
	if len(text) > 200 {
		text = append(text[:200], []rune("...")...)
	}
	return string(text)
}

// plainPath returns the names of a command without "epbench".
func plainPath(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}

func unknownCommand(cmd *cobra.Command, name string) error {
	var known []string
	for _, c := range cmd.Commands() {
		known = append(known, c.Name())
	}
	hint := "; see " + cmd.CommandPath() + " --help"
	if len(known) <= 4 {
		hint = "; there are " + strings.Join(known, ", ")
	}
	return usagef("unknown command %q%s", strings.TrimSpace(plainPath(cmd)+" "+name), ep.DidYouMean(name, known, hint))
}

// newHelp replaces cobra's help command, which accepts unknown names.
func newHelp() *cobra.Command {
	help := &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		RunE: func(cmd *cobra.Command, names []string) error {
			at := cmd.Root()
			for _, name := range names {
				below, _, err := at.Find([]string{name})
				if err != nil || below == at {
					return unknownCommand(at, name)
				}
				at = below
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, names []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var out []cobra.Completion
			at, _, err := cmd.Root().Find(names)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, c := range at.Commands() {
				if c.IsAvailableCommand() && strings.HasPrefix(c.Name(), begun) {
					out = append(out, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
	help.Flags().BoolVar(&helpAll, "all", false, "also explain the flags that are rarely needed")
	return help
}

// addCompletion adds cobra's completion command, and makes it refuse unknown shells.
func addCompletion(root *cobra.Command, args []string) {
	root.InitDefaultCompletionCmd(args...)
	if c, _, err := root.Find([]string{"completion"}); err == nil && c != root {
		c.Args, c.RunE = cobra.ArbitraryArgs, needSubcommand
	}
}
