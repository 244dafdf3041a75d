package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const mostHelp = 80

// TestHelp: each command has three examples that parse. Each flag is below a heading.
func TestHelp(t *testing.T) {
	root := newRoot(&bytes.Buffer{}, &bytes.Buffer{})
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			visit(c)
		}
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > helpWidth {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		if n := strings.Count(out.String(), "\n"); n > mostHelp && cmd.Name() != "terms" {
			t.Errorf("%s: the help has %d lines, want at most %d: add flags to rarelyUsedFlags", cmd.CommandPath(), n, mostHelp)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			placeholder := strings.Join(f.Annotations[placeholderKey], "")
			first, _, _ := strings.Cut(f.Usage, " ")
			if strings.Contains(f.Usage, "`") || placeholder != "" && strings.TrimRight(first, ":,") == placeholder {
				t.Errorf("%s --%s: the usage repeats the placeholder: %s", cmd.CommandPath(), f.Name, f.Usage)
			}
		})
		if strings.Contains(out.String(), "\nFlags:\n") && cmd.HasParent() {
			t.Errorf("%s: a flag without a heading:\n%s", cmd.CommandPath(), out.String())
		}
		if bare := map[string]bool{"version": true, "terms": true, "backends": true}; bare[cmd.Name()] {
			return
		}
		examples := strings.Split(cmd.Example, "\n")
		if len(examples) != 3 {
			t.Errorf("%s: %d examples, want 3", cmd.CommandPath(), len(examples))
		}
		for _, e := range examples {
			e, _, _ = strings.Cut(e, "  #")
			if _, args, ok := strings.Cut(e, "epbench "); ok {
				t.Run(args, func(t *testing.T) { parseOnly(t, shellWords(args)) })
			} else {
				t.Errorf("%s: no command: %s", cmd.CommandPath(), e)
			}
		}
	}
	visit(root)
}

// TestQueryHelp: the help of table lookup shows no defaults of sweep.
func TestQueryHelp(t *testing.T) {
	var out bytes.Buffer
	if code := run(t.Context(), []string{"table", "lookup", "--help"}, &out, &out); code != exitDone {
		t.Fatal(code)
	}
	for _, wrong := range []string{"to tune", `(default "bf16")`, "4 on cpu", "dispatch,combine,pair"} {
		if strings.Contains(out.String(), wrong) {
			t.Errorf("help says %q", wrong)
		}
	}
}

func TestShowExample(t *testing.T) {
	var out bytes.Buffer
	examples := strings.Split(newTableShow().Example, "\n")
	_, args, _ := strings.Cut(examples[len(examples)-1], "epbench ")
	if code := run(t.Context(), shellWords(args), &out, &out); code != exitDone {
		t.Errorf("%s: exit code %d: %s", args, code, out.String())
	}
}
