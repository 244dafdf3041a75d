package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// scanner walks JSON text. It knows the line and the field it is at, so that
// every complaint can name both.
//
// encoding/json was not used to read tables: it takes the last of two equal
// keys in silence, cannot tell a missing field from a zero, and lets three
// bytes of input ask for a row of memory.
type scanner struct {
	data []byte
	pos  int
	path []step // fields and list places entered
}

// step is one part of a path: a field, or a place in a list when name is "".
type step struct {
	name  string
	place int
}

// failf is an error at a byte offset in the field the scanner is in.
func (s *scanner) failf(at int, format string, args ...any) error {
	line := 1 + bytes.Count(s.data[:min(at, len(s.data))], []byte("\n"))
	return fmt.Errorf("line %d: %s%w", line, s.where(), fmt.Errorf(format, args...))
}

// where spells the path: "rows[3].key.ranks: ".
func (s *scanner) where() string {
	if len(s.path) == 0 {
		return ""
	}
	var b strings.Builder
	for i, p := range s.path {
		switch {
		case p.name == "":
			fmt.Fprintf(&b, "[%d]", p.place)
		case i > 0:
			b.WriteString("." + p.name)
		default:
			b.WriteString(p.name)
		}
	}
	return b.String() + ": "
}

func (s *scanner) enter(name string) { s.path = append(s.path, step{name: name}) }
func (s *scanner) enterPlace(i int)  { s.path = append(s.path, step{place: i}) }
func (s *scanner) leave()            { s.path = s.path[:len(s.path)-1] }

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// expect consumes one punctuation mark.
func (s *scanner) expect(c byte) error {
	got := s.peek()
	switch {
	case got == c:
		s.pos++
		return nil
	case s.pos >= len(s.data):
		return s.failf(s.pos, "the file ends where %q should stand; it was cut short", c)
	}
	return s.failf(s.pos, "%q stands where %q should", got, c)
}

// more tells whether a list goes on after an element: a comma yes, the closing
// mark no.
func (s *scanner) more(closing byte) (bool, error) {
	if s.peek() == ',' {
		s.pos++
		return true, nil
	}
	return false, s.expect(closing)
}

// word consumes a number or a bare word and returns its text.
func (s *scanner) word() []byte {
	s.peek()
	start := s.pos
	for s.pos < len(s.data) && strings.IndexByte(" \t\r\n,:[]{}\"", s.data[s.pos]) < 0 {
		s.pos++
	}
	return s.data[start:s.pos]
}

// quoted consumes a string and returns what stands between the marks.
func (s *scanner) quoted() ([]byte, error) {
	if err := s.expect('"'); err != nil {
		return nil, err
	}
	start := s.pos
	for ; s.pos < len(s.data) && s.data[s.pos] != '"' && s.data[s.pos] != '\n'; s.pos++ {
		if s.data[s.pos] == '\\' {
			s.pos++
		}
	}
	if s.pos >= len(s.data) || s.data[s.pos] != '"' {
		return nil, s.failf(start, "a string does not end")
	}
	s.pos++
	return s.data[start : s.pos-1], nil
}

// text consumes a string. Text that would not print is refused: labels from a
// table end up on terminals.
func (s *scanner) text() (string, error) {
	raw, err := s.quoted()
	if err != nil {
		return "", err
	}
	start := s.pos - len(raw) - 2
	out, err := unescape(raw, s.data[start:s.pos])
	if err != nil {
		return "", s.failf(start, "a string has a bad escape")
	}
	for _, r := range out {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return "", s.failf(start, "%.40q is not printable text", out)
		}
	}
	return out, nil
}

// unescape is a string's text, given what stands between the marks and the
// same with them.
func unescape(raw, marked []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw), nil
	}
	var out string
	err := json.Unmarshal(marked, &out)
	return out, err
}

// scalars counts the elements of the flat list at hand, whose opening mark is
// consumed, so that it can be allocated once.
func (s *scanner) scalars() int {
	if s.peek() == ']' {
		return 0
	}
	n, quoted := 1, false
	for i := s.pos; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',':
			n++
		case c == ']', c == '[', c == '{':
			return n
		}
	}
	return n
}
