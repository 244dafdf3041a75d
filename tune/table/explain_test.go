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
		"1024 hidden: a row that differs only in routing comes first",
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

func TestNearestIsTheFewestThenTheLatestFields(t *testing.T) {
	edited := func(edit func(*Key)) Row {
		r := testRow(ep.Even, 0, 64, 128)
		edit(&r.Key)
		return r
	}
	op := edited(func(k *Key) { k.Op = ep.Combine })
	ranks := edited(func(k *Key) { k.Ranks = 4 })
	both := edited(func(k *Key) { k.Op, k.Ranks = ep.Combine, 4 })
	reduced := edited(func(k *Key) { k.Precision = ep.Reduced })
	other := edited(func(k *Key) { k.Hidden, k.Routing = 4096, ep.HotRank })
	all := edited(func(k *Key) { k.Hidden, k.Routing = 4096, ep.AllRoutings })
	precise := testKey(ep.Even)
	loose := precise
	loose.Precision = ep.Reduced
	for _, c := range []struct {
		name string
		rows []Row
		key  Key
		want string
	}{
		{"none", nil, precise, ""},
		{"fewest", []Row{both, op}, precise, "the nearest row has op=combine"},
		{"fewest, the rows in the other order", []Row{op, both}, precise, "the nearest row has op=combine"},
		{"latest", []Row{op, ranks}, precise, "the nearest row has ranks=4"},
		{"latest, the rows in the other order", []Row{ranks, op}, precise, "the nearest row has ranks=4"},
		{"equally near: the smaller key", []Row{ranks, edited(func(k *Key) { k.Ranks = 2 })}, precise, "the nearest row has ranks=2"},
		{"latest of all", []Row{ranks, reduced}, precise, "the nearest row has precision=reduced"},
		{"full precision is not in the way", []Row{both, ranks}, loose, "the nearest row has ranks=4"},
		{"full precision answers", []Row{testRow(ep.Even, 0, 64, 128)}, loose, "rows for this key cover 0 to 64 tokens, not 100"},
		{"another class is in the way", []Row{other}, precise, "the nearest row has routing=hot-rank"},
		{"all routings and hidden are not", []Row{all}, precise, "rows for this key cover 0 to 64 tokens, not 100"},
	} {
		tab := testTable(c.rows...)
		if err := tab.Seal(); err != nil {
			t.Fatal(err)
		}
		if got := Overlay(Source{Table: tab}).Nearest(c.key, 100); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	one := testTable(ranks)
	set, _ := Overlay(Source{Table: one}).For(Host{Machine: ep.Machine{Backend: "cpu"}}, precise.Problem(1))
	if got := set.Nearest(precise, 1); got != "" || len(set.Sources()) != 0 {
		t.Errorf("a row of a refused table counts as the nearest: %q", got)
	}
}

func TestCoverageJoinsIntervals(t *testing.T) {
	a := testTable(testRow(ep.Even, 0, 8, 128), testRow(ep.Even, 10, 12, 128))
	b := testTable(testRow(ep.Even, 2, 5, 128), testRow(ep.Even, 13, 20, 128), testRow(ep.Skewed, 30, 40, 128))
	got := Overlay(Source{Table: a}, Source{Table: b}).coverage(testKey(ep.Even))
	if want := "0 to 8, 10 to 20"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
