package text

import (
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// Command breaks a shell command into lines of at most width columns; 0 means unlimited. It breaks only before flags.
func Command(command string, width int) string {
	if width == 0 || twwidth.Width(command) <= width {
		return command
	}
	var lines []string
	line := ""
	for _, part := range flagged(command) {
		if line != "" && twwidth.Width(line+" "+part+" \\") > width {
			lines = append(lines, line+" \\")
			line = "    " + part
			continue
		}
		line = strings.TrimLeft(line+" "+part, " ")
		if len(lines) > 0 {
			line = "    " + line
		}
	}
	return strings.Join(append(lines, line), "\n")
}

func flagged(command string) []string {
	var out []string
	from, quoted := 0, false
	for i, r := range command {
		switch {
		case r == '\'':
			quoted = !quoted
		case r == ' ' && !quoted && strings.HasPrefix(command[i+1:], "-"):
			out, from = append(out, command[from:i]), i+1
		}
	}
	return append(out, command[from:])
}
