package worker

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestShownLines: the twentieth line says that no further lines are shown. Empty lines do not count.
func TestShownLines(t *testing.T) {
	var shown []string
	p := &printer{tail: &tailBuffer{limit: 100}, show: func(s string) { shown = append(shown, s) }}
	for i := range 2 * saidLines {
		p.line("")
		p.line(fmt.Sprint("line ", i))
	}
	if n := len(shown); n != saidLines || shown[0] != "line 0" || shown[n-1] != "line 19 (further lines are not shown)" {
		t.Errorf("%d lines: %q", n, shown)
	}
	if got := p.tail.String(); !strings.HasSuffix(got, "line 38 line 39") || len(got) > 100 {
		t.Errorf("the tail is %q", got)
	}
}

// TestLongLines: a line longer than the limit is an error, wherever it stands.
func TestLongLines(t *testing.T) {
	for text, fails := range map[string]bool{
		"12345\n1234\n\n12345": false,
		"123456":               true,
		"1\n123456\n1\n":       true,
		"123456\n":             true,
	} {
		got, err := io.ReadAll(&lineLimit{r: strings.NewReader(text), limit: 5})
		if (err != nil) != fails || err == nil && string(got) != text {
			t.Errorf("%q: %q, %v, want an error %v", text, got, err, fails)
		}
	}
}

func TestSplitMessage(t *testing.T) {
	const m = `{"jsonrpc":"2.0","id":1,"result":{}}`
	for _, c := range []struct{ line, text, message string }{
		{m, "", m},
		{"loading {} " + m, "loading {}", m},
		{`{"level":"info"}`, `{"level":"info"}`, ""},
		{`{"jsonrpc":"1.0"}`, `{"jsonrpc":"1.0"}`, ""},
		{m + " tail", m + " tail", ""},
		{strings.Repeat("x", mostBefore-1) + m, strings.Repeat("x", mostBefore-1), m},
		{strings.Repeat("x", mostBefore) + m, strings.Repeat("x", mostBefore) + m, ""},
	} {
		text, message := splitMessage([]byte(c.line))
		if string(text) != c.text || string(message) != c.message {
			t.Errorf("%.60q: %.60q and %q", c.line, text, message)
		}
	}
}

func TestWrittenLines(t *testing.T) {
	var shown []string
	w := &lineWriter{to: &printer{tail: &tailBuffer{limit: 9}, show: func(s string) { shown = append(shown, s) }}}
	long := strings.Repeat("x", stderrTail+1)
	for _, part := range []string{"a", "b\nc\n", "", long, "\nla", "st"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	w.Close()
	w.Close()
	if want := []string{"ab", "c", shownText(long), "last"}; !slices.Equal(shown, want) {
		t.Errorf("%q, want %q", shown, want)
	}
}

// TestLastWords: the error of a worker that ended quotes its last output.
func TestLastWords(t *testing.T) {
	for _, listen := range []string{"", Loopback} {
		for _, to := range []string{"1", "2"} {
			for _, end := range []string{"", `\n`} {
				shell := fmt.Sprintf("printf 'no such device%s' >&%s; exit 3", end, to)
				_, err := Open(t.Context(), Command{Argv: []string{"sh", "-c", shell}, Listen: listen}, DefaultLimits(), nil)
				if err == nil || !strings.HasSuffix(err.Error(), "exit status 3; it printed: no such device") {
					t.Errorf("listen %q, %s: %v", listen, shell, err)
				}
			}
		}
	}
}
