package sources

import (
	"strings"
	"unicode/utf8"
)

// CodeOnly removes comments and layout from a C source.
func CodeOnly(text string) string {
	var out strings.Builder
	directive := false
	for len(text) > 0 {
		n := piece(text)
		t := text[:n]
		text = text[n:]
		switch {
		case t == "\n" && directive:
			out.WriteString("\n")
			directive = false
		case strings.TrimSpace(t) == "" || t[0] == '\\' || strings.HasPrefix(t, "//") || strings.HasPrefix(t, "/*"):
		case strings.HasPrefix(t, "#") && !directive:
			out.WriteString("\n" + strings.Join(strings.Fields(t[1:]), " ") + " ")
			directive = true
		default:
			out.WriteString(t)
			out.WriteByte(' ')
		}
	}
	return out.String()
}

// piece returns the length of the first piece of a C source: a comment, a literal, the head of a #define, a word, an
// operator, or white space. A regular expression would be shorter, but programs that hash all kernels would then take
// most of a second to start.
func piece(s string) int {
	switch c := s[0]; {
	case c == ' ' || c == '\t':
		return 1
	case isWord(c):
		return wordEnd(s, 0)
	case strings.HasPrefix(s, "//"):
		if end := strings.IndexByte(s, '\n'); end >= 0 {
			return end
		}
		return len(s)
	case strings.HasPrefix(s, "/*"):
		if end := strings.Index(s[2:], "*/"); end >= 0 {
			return end + 4
		}
	case c == '"' || c == '\'':
		if n := literal(s); n > 0 {
			return n
		}
	case strings.HasPrefix(s, "\\\n"):
		return 2
	case strings.HasPrefix(s, "\\\r\n"):
		return 3
	case c == '#':
		if n := definition(s); n > 0 {
			return n
		}
	}
	return operator(s)
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// wordEnd returns the end of the word that begins at i.
func wordEnd(s string, i int) int {
	for i < len(s) && isWord(s[i]) {
		i++
	}
	return i
}

// literal returns the length of the literal with which s begins, 0 if it has no end.
func literal(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return 0
}

// definition returns the length of the head of a definition, 0 if s begins with another directive. The head includes
// a bracket that follows at once, since `#define F (x)` differs from `#define F(x)`.
func definition(s string) int {
	rest, ok := strings.CutPrefix(strings.TrimLeft(s[1:], " \t"), "define")
	name := strings.TrimLeft(rest, " \t")
	end := wordEnd(name, 0)
	if !ok || len(name) == len(rest) || end == 0 {
		return 0
	}
	if strings.HasPrefix(name[end:], "(") {
		end++
	}
	return len(s) - len(name) + end
}

// operator returns the length of the operator or other character with which s begins.
func operator(s string) int {
	for _, long := range []string{"<<=", ">>=", "...", "->", "::", "##", "++", "--", "<<", ">>", "&&", "||"} {
		if strings.HasPrefix(s, long) {
			return len(long)
		}
	}
	if len(s) > 1 && s[1] == '=' && strings.IndexByte("-+*/%&|^<>=!", s[0]) >= 0 {
		return 2
	}
	_, n := utf8.DecodeRuneInString(s)
	return n
}
