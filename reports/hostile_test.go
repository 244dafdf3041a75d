package reports

import (
	"strings"
	"testing"
)

// TestMarkdownIsEscaped: a name from a file cannot add HTML, links or pictures.
func TestMarkdownIsEscaped(t *testing.T) {
	bad := "a\\| b | <img src=x> ![p](http://x) \x1b[2J\r\n# title\u2028\u202e"
	var b strings.Builder
	table := Table{Title: bad, Columns: []Column{Words(bad)}, Rows: [][]Cell{{{Text: bad}}}, Notes: []string{bad}, Warnings: []string{bad}}
	if err := WriteMarkdown(&b, table); err != nil {
		t.Fatal(err)
	}
	for _, never := range []string{"<img", "](http", "\x1b", "\r", "\n# ", "\u2028", "\u202e"} {
		if strings.Contains(b.String(), never) {
			t.Errorf("%q is in\n%s", never, b.String())
		}
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if rest, ok := strings.CutPrefix(line, "| a"); ok && rest != `\\\| b \| &lt;img src=x> ![p]\(http://x)  [2J  # title   |` {
			t.Errorf("cell: %s", rest)
		}
	}
}

func TestBenchWords(t *testing.T) {
	for in, want := range map[string]string{"zipf:1.0": "zipf:1.0", "a/b c=d": "a_b_c-d", "x\nBenchmarkY 1 2 ns/op": "x_BenchmarkY_1_2_ns_op", "t\te\x1b\u2028\xff": "t_e___"} {
		if got := benchWord(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := string(bench("gpu", "H200\nBenchmark 1\x1b[2J").Value); got != "H200 Benchmark 1 [2J" {
		t.Errorf("%q", got)
	}
}
