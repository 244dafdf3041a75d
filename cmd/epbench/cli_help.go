package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// headingKey is the annotation of a flag with its heading.
const headingKey = "epbench_heading"

// Headings of flags, in the order that help prints them.
const (
	forProblem = "Problem"
	forSearch  = "Search"
	forTables  = "Tables"
	forBackend = "Backend"
	forOutput  = "Output"
)

// flags registers what bind defines, under a heading of the help text.
func flags(cmd *cobra.Command, heading string, bind func(s *pflag.FlagSet)) {
	s := pflag.NewFlagSet(heading, pflag.ContinueOnError)
	s.SortFlags = false
	bind(s)
	s.VisitAll(func(f *pflag.Flag) { f.Annotations = map[string][]string{headingKey: {heading}} })
	cmd.Flags().SortFlags = false
	cmd.Flags().AddFlagSet(s)
}

// helpWidth is how wide help is printed: what fits everywhere.
const helpWidth = 80

// fitted wraps the paragraphs of a help text. In lists, whose lines begin with
// blanks, each entry is wrapped on its own.
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

// wrapped breaks a line at the width of help.
func wrapped(text string) string { return wrappedTo(text, helpWidth) }

// wrappedTo breaks a line between words; a path or a command stays whole. The lines after the first begin below the text of a
// list entry: its name and two blanks or more come before that.
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

// flagHelp lists the flags of a command under their headings.
func flagHelp(cmd *cobra.Command) string {
	var out strings.Builder
	for _, heading := range []string{forProblem, forSearch, forTables, forBackend, forOutput, ""} {
		s := pflag.NewFlagSet(heading, pflag.ContinueOnError)
		s.SortFlags = false
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if of := f.Annotations[headingKey]; len(of) == 1 && of[0] == heading || of == nil && heading == "" && f.Name != "help" {
				s.AddFlag(f)
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
	return out.String()
}

func init() {
	cobra.EnableCommandSorting = false // the groups are in the order of use
	cobra.AddTemplateFunc("flagHelp", flagHelp)
}

// usageTemplate is cobra's with flags under headings.
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
