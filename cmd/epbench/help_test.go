package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelp: every command has three examples that parse, every flag stands
// under a heading, and no line is wider than the narrowest terminal.
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
