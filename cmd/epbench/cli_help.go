package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	headingKey     = "epbench_heading"
	placeholderKey = "epbench_placeholder"
)

const (
	forProblem = "Problem"
	forSearch  = "Search"
	forTables  = "Tables"
	forBackend = "Backend"
	forOutput  = "Output"
)

// flags registers the flags that `bind` defines, under a heading. A usage may begin with a placeholder in backquotes.
func flags(cmd *cobra.Command, heading string, bind func(s *pflag.FlagSet)) {
	s := pflag.NewFlagSet(heading, pflag.ContinueOnError)
	s.SortFlags = false
	bind(s)
	s.VisitAll(func(f *pflag.Flag) {
		f.Annotations = map[string][]string{headingKey: {heading}}
		setUsage(f, f.Usage)
	})
	cmd.Flags().SortFlags = false
	cmd.Flags().AddFlagSet(s)
}

func setUsage(f *pflag.Flag, usage string) {
	if rest, ok := strings.CutPrefix(usage, "`"); ok {
		placeholder, text, _ := strings.Cut(rest, "` ")
		f.Annotations[placeholderKey] = []string{placeholder}
		usage = text
	}
	f.Usage = usage
}

// placeholderValue makes pflag print a placeholder instead of the type.
type placeholderValue struct {
	pflag.Value
	placeholder string
}

func (n placeholderValue) Type() string { return n.placeholder }

func shown(f *pflag.Flag) *pflag.Flag {
	g := *f
	if p := f.Annotations[placeholderKey]; len(p) == 1 {
		g.Value = placeholderValue{f.Value, p[0]}
	}
	if g.DefValue == "[]" {
		g.DefValue = ""
	}
	return &g
}

const helpWidth = 80

// fitted wraps the paragraphs of a help text. Lines that begin with blanks form a list.
func fitted(text string) string {
	var out []string
	for paragraph := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		entries := strings.Split(paragraph, "\n")
		if !strings.Contains(paragraph, "\n  ") && !strings.HasPrefix(paragraph, "  ") {
			entries = []string{strings.Join(entries, " ")}
		}
		for i, e := range entries {
			entries[i] = wrapped(e)
		}
		out = append(out, strings.Join(entries, "\n"))
	}
	return strings.Join(out, "\n\n")
}

func wrapped(text string) string { return wrappedTo(text, helpWidth) }

// wrappedTo breaks a line between words. In a list, it indents the second and later lines of an entry.
func wrappedTo(text string, width int) string {
	indent := len(text) - len(strings.TrimLeft(text, " "))
	if i := strings.Index(text[indent:], "  "); indent > 0 && i > 0 {
		rest := text[indent+i:]
		indent += i + len(rest) - len(strings.TrimLeft(rest, " "))
	}
	line := text[:indent]
	var out []string
	for word := range strings.FieldsSeq(text[indent:]) {
		if utf8.RuneCountInString(line+word) > width && strings.TrimSpace(line) != "" {
			out = append(out, strings.TrimRight(line, " "))
			line = strings.Repeat(" ", indent)
		}
		line += word + " "
	}
	return strings.Join(append(out, strings.TrimRight(line, " ")), "\n")
}

// rarelyUsedFlags lists flags that only help --all explains, for commands with more than manyFlags flags.
var rarelyUsedFlags = []string{"intermediate", "nodes", "max-tokens", "mode", "shared-expert", "skip-a2a", "layout", "seed", "beside", "objective", "kernel", "space", "retry",
	"trust-command", "profile", "allow-edited", "layers", "machine", "raw", "certified", "other-machines", "this-build", "explain", "band", "width"}

const manyFlags = 20

var helpAll bool

func leftOut(cmd *cobra.Command) (names []string) {
	all := 0
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if all++; slices.Contains(rarelyUsedFlags, f.Name) {
			names = append(names, f.Name)
		}
	})
	if helpAll || all <= manyFlags {
		return nil
	}
	return names
}

func flagHelp(cmd *cobra.Command) string {
	var out strings.Builder
	without := leftOut(cmd)
	for _, heading := range []string{forProblem, forSearch, forTables, forBackend, forOutput, ""} {
		s := pflag.NewFlagSet(heading, pflag.ContinueOnError)
		s.SortFlags = false
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains(without, f.Name) {
				return
			}
			if of := f.Annotations[headingKey]; len(of) == 1 && of[0] == heading || of == nil && heading == "" && f.Name != "help" {
				s.AddFlag(shown(f))
			}
		})
		if !s.HasAvailableFlags() {
			continue
		}
		if heading == "" {
			heading = "Flags"
		}
		fmt.Fprintf(&out, "\n%s:\n%s", heading, s.FlagUsagesWrapped(helpWidth))
	}
	if without != nil {
		fmt.Fprintf(&out, "\n%s\n", wrapped(fmt.Sprintf("epbench help --all %s explains %d more: --%s", plainPath(cmd), len(without), strings.Join(without, ", --"))))
	}
	return out.String()
}

func init() {
	cobra.EnableCommandSorting = false // groups list commands in the order of use
	cobra.AddTemplateFunc("flagHelp", flagHelp)
}

const usageTemplate = `Usage:
  {{.UseLine}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{$cmds := .Commands}}{{if .HasAvailableSubCommands}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if and (eq .GroupID $group.ID) .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if eq (len .Groups) 0}}

Commands:{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}
{{flagHelp .}}{{if .HasAvailableSubCommands}}
{{.CommandPath}} COMMAND --help explains a command.
epbench help terms explains the words.
{{end}}`
