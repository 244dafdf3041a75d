package ep

import (
	"fmt"
	"strings"
)

// Shorten cuts the middle out of a text of more than `most` bytes.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head, tail := text[:most/2], text[len(text)-most/2:]
	return strings.ToValidUTF8(fmt.Sprintf("%s ... (%d bytes left out) ... %s", head, len(text)-most, tail), "")
}
