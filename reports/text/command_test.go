package text

import (
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"pgregory.net/rapid"

	"github.com/epbench/epbench/tune/ep"
)

// TestCommand: the lines, joined again, give the command.
func TestCommand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"epbench", "sweep", "--tokens", "-o", "run", "my run --x", "it's", "1,8,128", "launch:a --b c"}), 1, 12).Draw(t, "words")
		width := rapid.IntRange(20, 90).Draw(t, "width")
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, ep.Quote(w))
		}
		command := strings.Join(quoted, " ")
		broken := Command(command, width)
		if joined := strings.ReplaceAll(broken, " \\\n    ", " "); joined != command {
			t.Fatalf("%q became %q", command, joined)
		}
		for line := range strings.SplitSeq(broken, "\n") {
			part := strings.TrimSuffix(strings.TrimPrefix(line, "    "), " \\")
			if twwidth.Width(line) > width && len(flagged(part)) > 1 {
				t.Fatalf("the line %q is wider than %d columns", line, width)
			}
		}
	})
}
