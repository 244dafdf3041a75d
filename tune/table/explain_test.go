package table

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

func TestExplainNamesEveryRow(t *testing.T) {
	far := testRow(ep.Even, 0, 64, 1024)
	far.Key.Hidden = 4096
	other := testRow(ep.Even, 0, 64, 32)
	other.Key.Ranks = 4
	set := Overlay(Source{Name: "t", Table: testTable(testRow(ep.Even, 0, 8, 128), testRow(ep.Even, 16, 64, 256), testRow(ep.AllRoutings, 0, 64, 512), far, other)})
	x := set.Explain(testKey(ep.Even), 12)
	var got []string
	for _, r := range x.Rows {
		got = append(got, r.Row.Config.Str("threads")+" "+strings.Join(r.Differs, ",")+": "+r.Note)
	}
	want := []string{
		"128 : covers tokens 0 to 8 only",
		"256 : covers tokens 16 to 64 only",
		"512 routing: answers",
		"1024 hidden: behind a row that differs in routing",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if x.Answer.Reason != Fallback || x.Answer.Config.Int("threads") != 512 {
		t.Errorf("answer %+v", x.Answer)
	}
}

func TestNearestSaysWhatIsMissing(t *testing.T) {
	tab := testTable(testRow(ep.Even, 0, 8, 128), testRow(ep.Even, 9, 32, 128), testRow(ep.Even, 48, 64, 128))
	tab.Header.Fallback = nil
	set := Overlay(Source{Name: "t", Table: tab})
	k := testKey(ep.Even)
	if got, want := set.Nearest(k, 40), "rows for this key cover 0 to 32, 48 to 64 tokens, not 40"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	k.Hidden, k.Op = 4096, ep.Combine
	if got, want := set.Nearest(k, 8), "the nearest row has op=dispatch hidden=7168"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
