package ep

import (
	"fmt"
	"strings"
)

// Shorten returns a text without its middle part if it has more than `most` bytes. The text then says how many
// bytes were left out.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head, tail := text[:most/2], text[len(text)-most/2:]
	return strings.ToValidUTF8(fmt.Sprintf("%s ... (%d bytes left out) ... %s", head, len(text)-most, tail), "")
}
