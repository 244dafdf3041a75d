package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// These are the keys under which a flag stores its heading in the help, and the placeholder of
// its value.
const (
	headingKey     = "epbench_heading"
	placeholderKey = "epbench_placeholder"
)

// These are the headings of flags, in the order in which the help prints them.
const (
	forProblem = "Problem"
	forSearch  = "Search"
	forTables  = "Tables"
	forBackend = "Backend"
	forOutput  = "Output"
)

// flags registers the flags that bind defines, under a heading of the help text. A usage may begin with a
// placeholder in backquotes: the usage "`N` rounds of each config" is printed as "--rounds N   rounds of
// each config".
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

// setUsage sets the usage and the placeholder of a flag.
func setUsage(f *pflag.Flag, usage string) {
	if rest, ok := strings.CutPrefix(usage, "`"); ok {
		placeholder, text, _ := strings.Cut(rest, "` ")
		f.Annotations[placeholderKey] = []string{placeholder}
		usage = text
	}
	f.Usage = usage
}

// placeholderValue is a flag's value whose type is the placeholder. pflag prints the type after the flag.
type placeholderValue struct {
	pflag.Value
	placeholder string
}

// Type implements pflag.Value.
func (n placeholderValue) Type() string { return n.placeholder }

// shown returns a copy of a flag, as help and man pages print it.
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

// helpWidth is the width of help texts.
const helpWidth = 80

// fitted wraps each paragraph of a help text. A paragraph whose lines begin with blanks is a
// list; fitted wraps each of its entries.
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

// wrapped breaks a line at helpWidth.
func wrapped(text string) string { return wrappedTo(text, helpWidth) }

// wrappedTo breaks a line at width, but only between words. In an entry of a list, two or more blanks
// separate the name from the text, and further lines of the entry begin below the text.
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

// rarelyUsedFlags lists flags that the help leaves out if a command has more than manyFlags flags, so
// that the help fits one or two screens. epbench help --all COMMAND and the man pages list all flags.
var rarelyUsedFlags = []string{"intermediate", "nodes", "max-tokens", "mode", "shared-expert", "skip-a2a", "layout", "seed", "beside", "objective", "kernel", "space", "retry",
	"trust-command", "profile", "allow-edited", "layers", "machine", "raw", "certified", "other-machines", "this-build", "explain", "band", "width"}

const manyFlags = 20

// helpAll is the value of help --all: help lists every flag.
var helpAll bool

// leftOut returns the flags that the help of a command leaves out.
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

// flagHelp lists the flags of a command under their headings.
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

// usageTemplate is cobra's template for usage, changed so that flags stand under headings.
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
