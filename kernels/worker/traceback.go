package worker

import (
	"regexp"
	"slices"
	"strings"
)

// traceLine matches a line of a Python traceback, perhaps with a rank before it.
var traceLine = regexp.MustCompile(`^(\[rank\d+\]: )?\s+\S`)

var frameLine = regexp.MustCompile(`^(?:\[rank\d+\]: )?\s+(File ".*", line \d+)`)

// withoutTraces returns the lines of a text without repeated ones. It replaces each traceback by one line with the
// exception and the last frame.
func withoutTraces(text string) []string {
	var kept []string
	inside, frame := false, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasSuffix(line, "Traceback (most recent call last):"):
			inside, frame = true, ""
			continue
		case inside && traceLine.MatchString(line):
			if m := frameLine.FindStringSubmatch(line); m != nil {
				frame = m[1]
			}
			continue
		case inside && frame != "":
			line += " (" + frame + ")"
		}
		inside = false
		if !slices.Contains(kept, line) {
			kept = append(kept, line)
		}
	}
	return kept
}
