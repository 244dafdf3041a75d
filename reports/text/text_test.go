package text

import (
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"pgregory.net/rapid"

	"github.com/epbench/epbench/reports"
)

// sample returns a table that drops column p90 first and column gain second.
func sample() reports.Table {
	t := reports.Table{
		Name:  "winners",
		Title: "Winners",
		Columns: []reports.Column{
			reports.Words("op"), reports.Numbers("tokens", ""), reports.Words("config"),
			reports.Numbers("median", "us"), reports.Numbers("p90", "us").Dropped(2), reports.Numbers("gain", "x").Dropped(1),
		},
		Notes: []string{"hidden 7168, 256 experts, top-8, 8 ranks, graph mode, uniform routing, seed 1"},
	}
	t.Add(reports.Str("dispatch"), reports.Int(128), reports.Str("warp:chunk=4,sms=24,threads=512"),
		reports.Micros(35.1e-6), reports.Micros(36e-6), reports.Float(1.25, 3))
	t.Add(reports.Str("combine"), reports.Int(4096), reports.Str("default"),
		reports.Micros(973.7e-6), reports.None(), reports.Float(1, 3))
	return t
}

func TestPrint(t *testing.T) {
	for width, want := range map[int]string{
		0: `Winners
op        tokens  config                           median    p90   gain
                                                       us     us      x
───────────────────────────────────────────────────────────────────────
dispatch     128  warp:chunk=4,sms=24,threads=512   35.10  36.00  1.250
combine     4096  default                           973.7      -  1.000
hidden 7168, 256 experts, top-8, 8 ranks, graph mode, uniform routing, seed 1
`,
		50: `Winners
op        tokens  config                median
                                            us
──────────────────────────────────────────────
dispatch     128  warp:chunk=4,sms=24,   35.10
                  threads=512
combine     4096  default                973.7
not shown at this width: gain, p90
hidden 7168, 256 experts, top-8, 8 ranks, graph
mode, uniform routing, seed 1
`,
	} {
		var b strings.Builder
		if err := Renderer(width)(&b, sample()); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("width %d: got\n%swant\n%s", width, b.String(), want)
		}
	}
}

// TestLeftOutKeysHeadRows: the values of a key column that does not fit become headings.
func TestLeftOutKeysHeadRows(t *testing.T) {
	tab := reports.Table{Columns: []reports.Column{reports.Words("op"), reports.Words("dtype").Dropped(2).Keyed(),
		reports.Words("extras").Dropped(1).Keyed(), reports.Numbers("ranks", "").Dropped(1).Keyed(), reports.Words("config")}}
	for _, r := range [][3]string{{"bf16", "", "a"}, {"bf16", "", "b"}, {"fp8", "reduced", "c"}, {"fp8", "", "d"}} {
		tab.Add(reports.Str("dispatch"), reports.Str(r[0]), reports.Str(r[1]), reports.Int(4), reports.Str(r[2]+strings.Repeat("1,", 13)))
	}
	const want = `op        config
─────────────────────────────────────

dtype bf16:
dispatch  a1,1,1,1,1,1,1,1,1,1,1,1,1,
dispatch  b1,1,1,1,1,1,1,1,1,1,1,1,1,

dtype fp8, extras reduced:
dispatch  c1,1,1,1,1,1,1,1,1,1,1,1,1,

dtype fp8:
dispatch  d1,1,1,1,1,1,1,1,1,1,1,1,1,
in every row: ranks 4
`
	var b strings.Builder
	if err := Renderer(40)(&b, tab); err != nil {
		t.Fatal(err)
	}
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestPanelsLead(t *testing.T) {
	tab := reports.Table{Columns: []reports.Column{reports.Words("op"), reports.Numbers("tokens", "").Leading(), reports.Numbers("ranks", "").Keyed(),
		reports.Numbers(strings.Repeat("a", 20), "us"), reports.Numbers(strings.Repeat("b", 20), "us")}}
	for n := range 2 {
		tab.Add(reports.Str("dispatch"), reports.Int(n), reports.Int(4+n), reports.Int(n), reports.Int(n))
	}
	const want = `op        tokens  ranks  aaaaaaaaaaaaaaaaaaaa
                                           us
─────────────────────────────────────────────
dispatch       0      4                     0
dispatch       1      5                     1

op        tokens  ranks  bbbbbbbbbbbbbbbbbbbb
                                           us
─────────────────────────────────────────────
dispatch       0      4                     0
dispatch       1      5                     1
`
	var b strings.Builder
	if err := Renderer(50)(&b, tab); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestFitsAnyWidth: no line of a random table is wider than the terminal.
func TestFitsAnyWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.IntRange(1, 3).Draw(t, "words")
		numbers := rapid.IntRange(0, 14).Draw(t, "numbers")
		var tab reports.Table
		for i := range words + numbers {
			c := reports.Numbers(strings.Repeat("n", 1+i%9), "us")
			if i < words {
				c = reports.Words("w")
			}
			if rapid.Bool().Draw(t, "key") {
				c = c.Keyed()
			}
			tab.Columns = append(tab.Columns, c.Dropped(rapid.IntRange(0, 2).Draw(t, "drop")))
		}
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			var row []reports.Cell
			for i := range tab.Columns {
				if i < words {
					text := rapid.OneOf(rapid.StringN(0, 60, 200), rapid.StringMatching(`([ab]{0,12}[ ,=+]){0,9}`))
					row = append(row, reports.Str(text.Draw(t, "cell")))
				} else {
					row = append(row, reports.Float(rapid.Float64Range(0, 1e6).Draw(t, "number"), 2))
				}
			}
			tab.Add(row...)
		}
		tab.Notes = []string{rapid.StringN(0, 200, 400).Draw(t, "note")}
		width := rapid.SampledFrom([]int{80, 120, 200}).Draw(t, "width")
		var b strings.Builder
		if err := Renderer(width)(&b, tab); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(b.String(), "\n") {
			if w := twwidth.Width(line); w > width {
				t.Fatalf("a line has %d columns, the limit is %d: %q", w, width, line)
			}
		}
	})
}

func TestNotesOfAbsentColumns(t *testing.T) {
	absent := []string{"p10", "p90", "timed at"}
	for note, want := range map[string]string{
		"timed at: the token count; of several, the one with the least gain": "",
		"median, p10: over rounds; p90, p10: of all; gain: over the default": "median, p10: over rounds; gain: over the default",
		"eager mode, 4 ranks": "eager mode, 4 ranks",
	} {
		if got := withoutAbsent(note, absent); got != want {
			t.Errorf("%q: %q, want %q", note, got, want)
		}
	}
}

// TestProseInPipe: without a width, a table has as many columns as it needs, but no note, warning or title is wider than
// 80 columns.
func TestProseInPipe(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 40))
	table := reports.Table{Title: long, Columns: []reports.Column{reports.Words("config")}, Notes: []string{long}, Warnings: []string{long}}
	table.Add(reports.Str(long))
	var b strings.Builder
	if err := Renderer(0)(&b, table); err != nil {
		t.Fatal(err)
	}
	wide := 0
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimSpace(line); line == long || strings.Trim(line, "─") == "" {
			wide++
		} else if len(line) > 80 {
			t.Errorf("a line has %d columns: %s", len(line), line)
		}
	}
	if text := strings.Join(strings.Fields(b.String()), " "); wide != 2 || strings.Count(text, long) != 4 {
		t.Errorf("%d lines of the table, want the row and the rule:\n%s", wide, b.String())
	}
}
