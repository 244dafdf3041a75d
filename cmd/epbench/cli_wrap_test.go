package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func onTerminal(t *testing.T, width int) {
	before := widthOf
	t.Cleanup(func() { widthOf = before })
	widthOf = func(io.Writer) int { return width }
}

// checkWidth refuses lines wider than the terminal, except commands and outputs for programs.
func checkWidth(t *testing.T, args []string, width int, output string) {
	t.Helper()
	forPrograms := func(arg string) bool {
		return arg == "--json" || arg == "-" || strings.HasPrefix(arg, "--format")
	}
	if slices.ContainsFunc(args, forPrograms) {
		return
	}
	for line := range strings.Lines(output) {
		words := strings.TrimSuffix(strings.TrimSpace(line), ` \`)
		isCommand := strings.HasPrefix(line, "    --") || strings.HasPrefix(words, "epbench ")
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width && !isCommand {
			t.Errorf("epbench %s: a line has %d columns: %s", strings.Join(args, " "), n, line)
		}
	}
}

// TestMessagesAreWrapped: lines are wrapped on a terminal and not in a pipe.
func TestMessagesAreWrapped(t *testing.T) {
	const long = "one two three four five\n  an indented line\nsix\n"
	for width, want := range map[int]string{0: long, 14: "one two three\nfour five\nan indented\nline\nsix\n"} {
		var b bytes.Buffer
		if _, err := io.WriteString(wrapping(&b, width), long); err != nil || b.String() != want {
			t.Errorf("width %d: %q, %v", width, b.String(), err)
		}
	}
}
