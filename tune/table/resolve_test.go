package table

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/epbench/epbench/tune/ep"
)

var testHost = Host{Machine: testMachine, ABI: "abi1"}

// randomTable draws a table with every kind of row.
func randomTable(t *rapid.T) *Table {
	tab := testTable()
	tab.Header.Fallback = rapid.Permutation(FallbackFields()).Draw(t, "fallback")[:rapid.IntRange(0, len(FallbackFields())).Draw(t, "how many")]
	for range rapid.IntRange(0, 12).Draw(t, "keys") {
		k := randomKey(t)
		if slices.ContainsFunc(tab.Rows, func(r Row) bool { return r.Key == k }) {
			continue
		}
		at := 0
		for range rapid.IntRange(1, 4).Draw(t, "intervals") {
			lo := at + rapid.IntRange(0, 10).Draw(t, "gap")
			hi := lo + rapid.IntRange(0, 20).Draw(t, "length")
			r := testRow(k.Routing, lo, hi, 32*len(tab.Rows)+32)
			r.Key = k
			r.Default = rapid.IntRange(0, 5).Draw(t, "default") == 0
			tab.Rows = append(tab.Rows, r)
			at = hi + 1
		}
	}
	if err := tab.Seal(); err != nil {
		t.Fatal(err)
	}
	return tab
}

func randomKey(t *rapid.T) Key {
	return Key{
		Op: rapid.SampledFrom(ep.RowOps()).Draw(t, "op"), Mode: rapid.SampledFrom(ep.Modes()).Draw(t, "mode"),
		Ranks: rapid.SampledFrom([]int{4, 8}).Draw(t, "ranks"), Nodes: 1,
		Hidden:   rapid.SampledFrom([]int{1024, 4096, 7168}).Draw(t, "hidden"),
		Experts:  rapid.SampledFrom([]int{64, 256}).Draw(t, "experts"),
		TopK:     rapid.SampledFrom([]int{4, 8}).Draw(t, "topk"),
		Dispatch: rapid.SampledFrom([]ep.DType{ep.BF16, ep.FP8}).Draw(t, "dispatch"), Combine: ep.BF16,
		SharedExpert: rapid.Bool().Draw(t, "shared"),
		Routing:      rapid.SampledFrom(ep.Classes()).Draw(t, "routing"),
		Precision:    rapid.SampledFrom([]ep.Precision{ep.Full, ep.Reduced}).Draw(t, "results"),
	}
}

func sameAnswer(a, b Answer) bool {
	same := a.Config.Key() == b.Config.Key() && fmt.Sprint(a.Differs) == fmt.Sprint(b.Differs)
	// Without its only row for a rank count, a table is refused: the reason changes from uncovered to refused.
	return same && (a.Reason == b.Reason || a.Row == nil && b.Row == nil)
}

func checkNeverCrosses(t *rapid.T, k Key, tokens int, a Answer) {
	if a.Row == nil {
		if !a.Config.IsDefault() {
			t.Fatalf("an answer without a row is not the default: %+v", a)
		}
		return
	}
	r := a.Row
	if r.Key.Op != k.Op || r.Key.Ranks != k.Ranks || r.Key.Nodes != k.Nodes || r.Key.SkipA2A != k.SkipA2A ||
		r.Key.Dispatch != k.Dispatch && k.Op != ep.Combine || r.Key.Combine != k.Combine {
		t.Fatalf("query %v is answered by %v", k, r.Key)
	}
	if tokens < r.Lo || tokens > r.Hi {
		t.Fatalf("%d tokens are answered by a row for %d to %d", tokens, r.Lo, r.Hi)
	}
	if r.Key.Precision == ep.Reduced && k.Precision == ep.Full {
		t.Fatalf("a question of full precision is answered by %v", r.Key)
	}
	if r.Key.Routing != k.Routing && r.Key.Routing != ep.AllRoutings && r.Key.Routing != ep.Even && k.Routing != ep.AllRoutings {
		t.Fatalf("routing %s is answered by a row for %s", k.Routing, r.Key.Routing)
	}
}

func TestResolvedAgreesWithLookupAndNeverCrosses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := randomTable(t)
		k := randomKey(t)
		p := k.Problem(1)
		p.MaxTokens = rapid.IntRange(1, 150).Draw(t, "max tokens")
		resolved := tab.Resolve(testHost, p)
		for _, c := range ep.Classes() {
			k.Routing = c
			for tokens := -1; tokens < p.MaxTokens+3; tokens++ {
				fast := *resolved.Lookup(tokens, c)
				slow := tab.Lookup(k, tokens)
				if tokens <= p.MaxTokens && !sameAnswer(fast, slow) {
					t.Fatalf("tokens %d class %s: resolved %+v, direct %+v", tokens, c, fast, slow)
				}
				checkNeverCrosses(t, k, tokens, fast)
			}
		}
	})
}

func TestRemovingARowChangesNoOtherAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := randomTable(t)
		if len(tab.Rows) == 0 {
			return
		}
		gone := rapid.IntRange(0, len(tab.Rows)-1).Draw(t, "removed")
		less := *tab
		less.Rows = append(append([]Row{}, tab.Rows[:gone]...), tab.Rows[gone+1:]...)
		for range 30 {
			k, tokens := randomKey(t), rapid.IntRange(0, 120).Draw(t, "tokens")
			before := tab.Lookup(k, tokens)
			if before.Row == &tab.Rows[gone] {
				continue
			}
			if after := less.Lookup(k, tokens); !sameAnswer(before, after) {
				t.Fatalf("without %v: %v at %d went from %+v to %+v", tab.Rows[gone].Key, k, tokens, before, after)
			}
		}
	})
}

func TestResolveCoversTheEnds(t *testing.T) {
	tab := testTable(testRow(ep.Even, 2, 2, 64), testRow(ep.Even, 4, 8, 128), testRow(ep.Even, 10, 100, 256))
	r := tab.Resolve(testHost, testKey(ep.Even).Problem(64))
	for tokens, want := range map[int]Reason{-1: Uncovered, 0: Uncovered, 1: Uncovered, 2: Exact, 3: Uncovered, 4: Exact, 8: Exact, 9: Uncovered, 10: Exact, 64: Exact, 65: Uncovered, 100: Uncovered} {
		if a := r.Lookup(tokens, ep.Even); a.Reason != want {
			t.Errorf("%d tokens: %s, want %s", tokens, a.Reason, want)
		}
	}
	runs := r.Runs(ep.Even, 0, 70)
	got := ""
	for _, run := range runs {
		got += fmt.Sprintf("%d-%d %s ", run.Lo, run.Hi, run.Answer.Reason)
	}
	if want := "0-1 uncovered 2-2 exact 3-3 uncovered 4-8 exact 9-9 uncovered 10-64 exact 65-70 uncovered "; got != want {
		t.Errorf("runs %s, want %s", got, want)
	}
}

// TestTheNearestNumberAnswers: of two equally near sizes the smaller answers.
func TestTheNearestNumberAnswers(t *testing.T) {
	at := func(hidden, topK, threads int) Row {
		r := testRow(ep.AllRoutings, 0, 64, threads)
		r.Key.Hidden, r.Key.TopK = hidden, topK
		return r
	}
	tab := testTable(at(4096, 8, 128), at(8192, 8, 256), at(7168, 4, 512))
	tab.Header.Fallback = []string{"hidden", "top_k"}
	for hidden, want := range map[int]int{5120: 128, 6144: 128, 7040: 256, 65536: 256, 8: 128, 7168: 256} {
		k := testKey(ep.AllRoutings)
		k.Hidden = hidden
		if a := tab.Lookup(k, 8); a.Config.Int("threads") != want || fmt.Sprint(a.Differs) != "[hidden]" {
			t.Errorf("hidden %d: %d threads, %v, want %d", hidden, a.Config.Int("threads"), a.Differs, want)
		}
	}
}

func TestNoAnswerCrossesMachineOrKernels(t *testing.T) {
	changes := map[string]func(*Host){
		"backend": func(h *Host) { h.Machine.Backend += "x" }, "pci": func(h *Host) { h.Machine.PCIID += "0" },
		"arch": func(h *Host) { h.Machine.Arch += "a" }, "sms": func(h *Host) { h.Machine.SMs++ },
		"memory": func(h *Host) { h.Machine.Memory += 1 << 30 }, "link": func(h *Host) { h.Machine.Link += "x" },
		"abi": func(h *Host) { h.ABI += "x" },
	}
	rapid.Check(t, func(t *rapid.T) {
		tab, k, host := randomTable(t), randomKey(t), testHost
		what := rapid.SampledFrom(slices.Sorted(maps.Keys(changes))).Draw(t, "change")
		changes[what](&host)
		r := tab.Resolve(host, k.Problem(100))
		for _, c := range ep.Classes() {
			for tokens := range 100 {
				if a := r.Lookup(tokens, c); a.Reason != Refused || !a.Config.IsDefault() || a.Row != nil {
					t.Fatalf("another %s is answered by %+v", what, a)
				}
			}
		}
	})
}

func TestRandomTablesSurviveWriting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var first, second bytes.Buffer
		if _, err := randomTable(t).WriteTo(&first); err != nil {
			t.Fatal(err)
		}
		back, err := Load(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := back.WriteTo(&second); err != nil || first.String() != second.String() {
			t.Fatalf("%v\n%s\n%s", err, first.String(), second.String())
		}
	})
}

func TestHardMismatchRefuses(t *testing.T) {
	tab := testTable(testRow(ep.Even, 0, 64, 128))
	good := testKey(ep.Even).Problem(64)
	for _, c := range []struct {
		name string
		edit func(*Host, *ep.Problem)
		want string
	}{
		{"gpu", func(h *Host, _ *ep.Problem) { h.Machine.PCIID = "10de:2330" }, "table: refused: machine: the table is for"},
		{"sms", func(h *Host, _ *ep.Problem) { h.Machine.SMs = 114 }, "refused: machine"},
		{"link", func(h *Host, _ *ep.Problem) { h.Machine.Link = "pcie" }, "refused: machine"},
		{"abi", func(h *Host, _ *ep.Problem) { h.ABI = "abi2" }, "refused: abi: the table is for kernels abi1, these are abi2"},
		{"ranks", func(_ *Host, p *ep.Problem) { p.Ranks = 4 }, "refused: ranks: the table has no row for 4 ranks"},
		{"dtype", func(_ *Host, p *ep.Problem) { p.Dispatch = ep.FP8 }, "refused: dispatch: the table has no row for fp8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, p := testHost, good
			c.edit(&h, &p)
			r := tab.Resolve(h, p)
			if a := r.Lookup(16, ep.Even); a.Reason != Refused || !a.Config.IsDefault() {
				t.Errorf("answer %+v", a)
			}
			if notes := fmt.Sprint(r.Notes()); len(r.Notes()) != 1 || !strings.Contains(notes, c.want) {
				t.Errorf("notes %s, want %s", notes, c.want)
			}
		})
	}
}

func TestSoftMismatchIsUnverified(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Host, *Table)
		want string
	}{
		{"driver", func(h *Host, _ *Table) { h.Machine.Driver = "590.1" }, "driver 590.1, measured under 580.65"},
		{"cuda minor", func(h *Host, _ *Table) { h.Machine.CUDA = "13.1" }, "cuda 13.1, measured under 13.0"},
		{"edited", func(_ *Host, t *Table) { t.Header.Edited = true }, "edited by hand"},
		{"abi", func(h *Host, _ *Table) { h.ABI = "" }, "abi unknown"},
		{"cuda patch", func(h *Host, _ *Table) { h.Machine.CUDA = "13.0.2" }, ""},
		{"label", func(h *Host, _ *Table) { h.Machine.Name = "H200 SXM" }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, tab := testHost, testTable(testRow(ep.Even, 0, 64, 128))
			c.edit(&h, tab)
			r := tab.Resolve(h, testKey(ep.Even).Problem(64))
			a := r.Lookup(16, ep.Even)
			if a.Config.Int("threads") != 128 || a.Verified != (c.want == "") {
				t.Errorf("answer %+v", a)
			}
			if !strings.Contains(fmt.Sprint(r.Notes()), c.want) {
				t.Errorf("notes %v, want %s", r.Notes(), c.want)
			}
		})
	}
}

func TestIllegalRowIsDefault(t *testing.T) {
	h := testHost
	h.Check = func(_ ep.Machine, p ep.Problem, c ep.Config) error {
		if c.Int("threads") > 256 {
			return fmt.Errorf("threads: too many")
		}
		return nil
	}
	tab := testTable(testRow(ep.Even, 0, 8, 128), testRow(ep.Even, 9, 64, 512))
	r := tab.Resolve(h, testKey(ep.Even).Problem(64))
	if a := r.Lookup(8, ep.Even); a.Reason != Exact || a.Config.Int("threads") != 128 {
		t.Errorf("legal row: %+v", a)
	}
	if a := r.Lookup(9, ep.Even); a.Reason != Illegal || !a.Config.IsDefault() {
		t.Errorf("illegal row: %+v", a)
	}
}

func TestOverlayGoesRowByRow(t *testing.T) {
	below := testTable(testRow(ep.Even, 0, 64, 128), testRow(ep.HotRank, 0, 64, 192))
	above := testTable(testRow(ep.Even, 8, 16, 512))
	set := Overlay(Source{Name: "embedded", Table: below}, Source{Name: "user", Table: above})
	r := set.Resolve(testHost, testKey(ep.Even).Problem(64))
	for _, c := range []struct {
		tokens  int
		class   ep.Class
		threads int
		source  string
	}{{7, ep.Even, 128, "embedded"}, {8, ep.Even, 512, "user"}, {16, ep.Even, 512, "user"}, {17, ep.Even, 128, "embedded"}, {8, ep.HotRank, 192, "embedded"}} {
		a := r.Lookup(c.tokens, c.class)
		if a.Config.Int("threads") != c.threads || a.Source != c.source {
			t.Errorf("%d tokens, %s: %+v, want %d threads of %s", c.tokens, c.class, a, c.threads, c.source)
		}
	}
}

func TestHooksMustMatch(t *testing.T) {
	for _, c := range []struct {
		table, host string
		answers     bool
	}{{"", "", true}, {"", "input=fp8", true}, {"input=fp8", "input=fp8", true}, {"input=fp8", "", false}, {"input=fp8", "columns=interleaved", false}} {
		tab := testTable(testRow(ep.AllRoutings, 0, 64, 512))
		tab.Header.Hooks = c.table
		err := tab.Refusal(Host{Machine: testMachine, ABI: "abi1", Hooks: c.host}, testKey(ep.AllRoutings).Problem(64))
		if (err == nil) != c.answers {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestRowForEvenAnswersLast: the row of an uneven class answers only that class.
func TestRowForEvenAnswersLast(t *testing.T) {
	all, even, skewed := testRow(ep.AllRoutings, 0, 8, 128), testRow(ep.Even, 0, 64, 256), testRow(ep.Skewed, 0, 80, 512)
	tab := testTable(all, even, skewed)
	tab.Header.Fallback = []string{"routing"}
	r := tab.Resolve(Host{Machine: testMachine, ABI: tab.Header.ABI}, testKey(ep.Even).Problem(80))
	if a := r.Lookup(65, ep.HotRank); a.Row != nil {
		t.Errorf("a row for skewed routings answers for a hot rank: %+v", a)
	}
	for _, c := range []struct {
		tokens int
		class  ep.Class
		row    ep.Class
		reason Reason
	}{
		{8, ep.HotRank, ep.AllRoutings, Fallback}, {9, ep.HotRank, ep.Even, Fallback}, {9, ep.AllRoutings, ep.Even, Fallback},
		{9, ep.Skewed, ep.Skewed, Exact}, {9, ep.Even, ep.Even, Exact}, {65, ep.AllRoutings, ep.Skewed, Fallback},
	} {
		a := r.Lookup(c.tokens, c.class)
		if a.Row == nil || a.Row.Key.Routing != c.row || a.Reason != c.reason {
			t.Errorf("%d tokens, %s: %+v, want the row for %s", c.tokens, c.class, a, c.row)
		}
	}
}

func TestCombineRowServesEveryDType(t *testing.T) {
	row := func(op ep.Op, d ep.DType, hidden, threads int) Row {
		r := testRow(ep.Even, 0, 64, threads)
		r.Key.Op, r.Key.Dispatch, r.Key.Hidden = op, d, hidden
		return r
	}
	k := testKey(ep.Even)
	tab := testTable(row(ep.Combine, ep.FP8, k.Hidden, 128), row(ep.Combine, ep.BF16, k.Hidden/2, 256), row(ep.Dispatch, ep.FP8, k.Hidden, 512))
	tab.Header.Fallback = []string{"hidden"}
	host := Host{Machine: testMachine, ABI: tab.Header.ABI}
	ask := func(op ep.Op, d ep.DType) *Answer {
		k.Op, k.Dispatch = op, d
		return tab.Resolve(host, k.Problem(64)).Lookup(8, ep.Even)
	}
	for _, d := range []ep.DType{ep.FP8, ep.BF16, ep.MXFP4} {
		if a := ask(ep.Combine, d); a.Reason != Exact || a.Row.Key.Dispatch != ep.FP8 || len(a.Differs) > 0 {
			t.Errorf("combine %s: %+v", d, a)
		}
	}
	tab.Rows = append(tab.Rows, row(ep.Combine, ep.BF16, k.Hidden, 64))
	if a := ask(ep.Combine, ep.BF16); a.Row.Key.Dispatch != ep.BF16 || a.Config.Int("threads") != 64 {
		t.Errorf("a combine whose dispatch dtype has a row: %+v", a)
	}
	if a := ask(ep.Dispatch, ep.BF16); a.Row != nil {
		t.Errorf("a dispatch of another dtype: %+v", a)
	}
}
