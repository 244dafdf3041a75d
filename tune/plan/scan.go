package plan

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
	path []string // fields entered, as "rows", "[3]", ".key"
}

// failf is an error at a byte offset in the field the scanner is in.
func (s *scanner) failf(at int, format string, args ...any) error {
	line := 1 + bytes.Count(s.data[:min(at, len(s.data))], []byte("\n"))
	where := strings.TrimPrefix(strings.Join(s.path, ""), ".")
	if where != "" {
		where += ": "
	}
	return fmt.Errorf("line %d: %s%w", line, where, fmt.Errorf(format, args...))
}

func (s *scanner) enter(part string) { s.path = append(s.path, part) }
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
func (s *scanner) word() string {
	s.peek()
	start := s.pos
	for s.pos < len(s.data) && strings.IndexByte(" \t\r\n,:[]{}\"", s.data[s.pos]) < 0 {
		s.pos++
	}
	return string(s.data[start:s.pos])
}

// text consumes a string. Text that would not print is refused: labels from a
// table end up on terminals.
func (s *scanner) text() (string, error) {
	if err := s.expect('"'); err != nil {
		return "", err
	}
	start := s.pos
	for ; s.pos < len(s.data) && s.data[s.pos] != '"' && s.data[s.pos] != '\n'; s.pos++ {
		if s.data[s.pos] == '\\' {
			s.pos++
		}
	}
	if s.pos >= len(s.data) || s.data[s.pos] != '"' {
		return "", s.failf(start, "a string does not end")
	}
	raw := s.data[start:s.pos]
	s.pos++
	out := string(raw)
	if bytes.IndexByte(raw, '\\') >= 0 {
		if err := json.Unmarshal(s.data[start-1:s.pos], &out); err != nil {
			return "", s.failf(start, "a string has a bad escape")
		}
	}
	if i := strings.IndexFunc(out, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }); i >= 0 {
		return "", s.failf(start, "%.40q is not printable text", out)
	}
	return out, nil
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
