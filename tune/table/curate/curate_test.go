package curate

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

var day = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func key(c ep.Class) table.Key {
	return table.Key{Op: ep.Dispatch, Mode: ep.Graph, Ranks: 8, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8,
		Dispatch: ep.BF16, Combine: ep.BF16, Routing: c}
}

func row(c ep.Class, lo, hi, threads int) table.Row {
	return table.Row{Key: key(c), Lo: lo, Hi: hi,
		Config: ep.Config{Kernel: "direct"}.With("threads", ep.Value(strconv.Itoa(threads))),
		Evidence: table.Evidence{Clock: "chain", Median: 25e-6, P10: 24e-6, P90: 27e-6, Rounds: 50,
			Gain: 1.1, GainLow: 1.08, GainHigh: 1.12, Tried: 40, Ties: 2,
			Routings: []string{"uniform", "zipf:1.0"}, Tokens: measured(lo, hi), Complete: true, Date: day}}
}

func measured(lo, hi int) []int {
	if lo == hi {
		return []int{lo}
	}
	return []int{lo, hi}
}

func sealed(rows ...table.Row) *table.Table {
	return &table.Table{Schema: table.Schema, Rows: rows, Header: table.Header{Tool: "test", ABI: "abi1", Space: "s",
		Created: day, Machine: ep.Machine{Backend: "cuda", SMs: 132, GPUs: 8}, Policy: "race", AA: 0.004, TrialLog: "log"}}
}

func randomTable(t *rapid.T, name string) *table.Table {
	tab := sealed()
	tab.Header.TrialLog = name
	tab.Header.Created = day.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, name+" created")) * time.Hour)
	for _, c := range []ep.Class{ep.Even, ep.Skewed, ep.AllRoutings} {
		at := 0
		for range rapid.IntRange(0, 4).Draw(t, name+" rows") {
			lo := at + rapid.IntRange(0, 6).Draw(t, name+" gap")
			r := row(c, lo, lo+rapid.IntRange(0, 12).Draw(t, name+" length"), 128*rapid.IntRange(1, 2).Draw(t, name+" threads"))
			r.Evidence.Gain = rapid.SampledFrom([]float64{1.02, 1.1, 1.2}).Draw(t, name+" gain")
			r.Evidence.GainLow, r.Evidence.GainHigh = r.Evidence.Gain-0.01, r.Evidence.Gain+0.01
			if r.Lo < r.Hi && rapid.Bool().Draw(t, name+" between") {
				r.Evidence.Between = []int{r.Hi}
			}
			r.Evidence.Date = day.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, name+" date")) * time.Hour)
			tab.Rows = append(tab.Rows, r)
			at = r.Hi + 1
		}
	}
	if err := tab.Seal(); err != nil {
		t.Fatal(err)
	}
	return tab
}

func encoded(t *rapid.T, tab *table.Table) string {
	var b bytes.Buffer
	if _, err := tab.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

type fataler interface {
	Helper()
	Fatal(...any)
}

func mergedBy(t fataler, old, newcomer *table.Table, rule Rule) (*table.Table, []Overlap) {
	t.Helper()
	m, overlaps, err := Merge(old, newcomer, rule)
	if err != nil {
		t.Fatal(err)
	}
	return m, overlaps
}

func merged(t *rapid.T, a, b *table.Table) (*table.Table, []Overlap) {
	return mergedBy(t, a, b, Rule{Band: 0.01})
}

func TestMergeIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := randomTable(t, "a"), randomTable(t, "b")
		once, _ := merged(t, a, b)
		for name, again := range map[string]*table.Table{"newcomer": b, "itself": once} {
			if twice, _ := merged(t, once, again); encoded(t, twice) != encoded(t, once) {
				t.Fatalf("merging %s again changes\n%s\nto\n%s", name, encoded(t, once), encoded(t, twice))
			}
		}
	})
}

func TestMergeOrderDoesNotMatterWithoutConflict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := randomTable(t, "a"), randomTable(t, "b")
		for _, d := range Diff(a, b) {
			if d.Kind == Config {
				return
			}
		}
		ab, _ := merged(t, a, b)
		ba, _ := merged(t, b, a)
		if encoded(t, ab) != encoded(t, ba) {
			t.Fatalf("one way\n%s\nother way\n%s", encoded(t, ab), encoded(t, ba))
		}
	})
}

// TestMergedAnswersComeFromOneOfTheTwo: at a measured count, the merged table answers as one of the two tables does. At
// any other count, it answers as one of them does at a nearest measured count.
func TestMergedAnswersComeFromOneOfTheTwo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := randomTable(t, "a"), randomTable(t, "b")
		m, _ := merged(t, a, b)
		for _, c := range ep.Classes() {
			at := measuredTokens(key(c), a, b)
			for n := range 80 {
				z := m.Lookup(key(c), n)
				if (z.Row == nil) != (a.Lookup(key(c), n).Row == nil && b.Lookup(key(c), n).Row == nil) {
					t.Fatalf("%s %d: covered %v", c, n, z.Row != nil)
				}
				i, found := slices.BinarySearch(at, n)
				nearest := slices.Clone(at[max(0, i-1):min(len(at), i+1)])
				if found {
					nearest = []int{n}
				}
				here := func(n int) bool {
					return z.Config.Key() == a.Lookup(key(c), n).Config.Key() || z.Config.Key() == b.Lookup(key(c), n).Config.Key()
				}
				if z.Row != nil && !slices.ContainsFunc(nearest, here) {
					t.Fatalf("%s %d: %v is the answer of neither table at %v", c, n, z, nearest)
				}
			}
		}
	})
}

func measuredTokens(k table.Key, tables ...*table.Table) []int {
	var out []int
	for _, tab := range tables {
		for _, r := range tab.Rows {
			if r.Key == k {
				out = append(out, r.Evidence.Tokens...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestMergedRowsWereMeasured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, _ := merged(t, randomTable(t, "a"), randomTable(t, "b"))
		for _, f := range Lint(m, nil, 0.01) {
			if f.Rule == "measured" {
				t.Fatalf("%s\n%s", f.Text, encoded(t, m))
			}
		}
	})
}

func TestMergeOfOtherTokenCounts(t *testing.T) {
	at := func(n, lo, hi, threads int, gain float64) table.Row {
		r := row(ep.Even, lo, hi, threads)
		r.Evidence.Tokens = []int{n}
		r.Evidence.Gain, r.Evidence.GainLow, r.Evidence.GainHigh = gain, gain-0.01, gain+0.01
		return r
	}
	old := sealed(at(1, 1, 11, 128, 2), at(128, 12, 1024, 256, 2), at(8192, 1025, 8192, 512, 2))
	fresh := sealed(at(8, 1, 181, 640, 1.1), at(4096, 182, 8192, 768, 4))
	m, decisions := mergedBy(t, old, fresh, Rule{Band: 0.01})
	var got []string
	for _, r := range m.Rows {
		got = append(got, fmt.Sprintf("%d-%d %d", r.Lo, r.Hi, r.Config.Int("threads")))
	}
	for _, d := range decisions {
		got = append(got, fmt.Sprintf("%d-%d %s", d.Lo, d.Hi, d.Effect))
	}
	want := "1-2 128, 3-32 640, 33-724 256, 725-5792 768, 5793-8192 512, " +
		"1-2 stays, 3-11 nearer, 12-32 nearer, 33-181 stays, 182-724 stays, 725-1024 nearer, 1025-5792 nearer, 5793-8192 stays"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s\nwant %s", strings.Join(got, ", "), want)
	}
}

// TestUnmeasuredCountsFollowTheNearest: the midpoint of 8 and 64 is sqrt(8 x 64) = 22.6.
func TestUnmeasuredCountsFollowTheNearest(t *testing.T) {
	old, fresh := row(ep.Even, 9, 128, 128), row(ep.Even, 64, 256, 512)
	old.Evidence.Tokens, fresh.Evidence.Tokens = []int{64}, []int{64, 256}
	fresh.Evidence.Gain, fresh.Evidence.GainLow, fresh.Evidence.GainHigh = 1.5, 1.49, 1.51
	first := row(ep.Even, 0, 8, 128)
	m, decisions := mergedBy(t, sealed(first, old), sealed(fresh), Rule{Band: 0.01})
	var said []string
	for _, d := range decisions {
		said = append(said, fmt.Sprintf("%d-%d %s", d.Lo, d.Hi, d.Effect))
	}
	if got := strings.Join(said, ", "); got != "23-128 replaced" {
		t.Errorf("decisions: %s", got)
	}
	for n, want := range map[int]int{8: 128, 22: 128, 23: 512, 63: 512, 256: 512} {
		if got := m.Lookup(key(ep.Even), n).Config.Int("threads"); got != want {
			t.Errorf("%d tokens: %d threads, want %d", n, got, want)
		}
	}
}

func TestIncumbentRule(t *testing.T) {
	for _, c := range []struct {
		name         string
		gain, lo, hi float64
		want         Effect
	}{
		{"clearly better", 2.5, 2.25, 2.75, Replaced},
		{"better by the band", 2.25, 2.1875, 2.3125, Stays},
		{"better by more than the band", 2.2501, 2.1875, 2.3125, Replaced},
		{"better with intervals that touch", 2.5, 2.125, 2.75, Stays},
		{"better with intervals that overlap", 2.5, 2, 2.75, Stays},
		{"worse", 1.5, 1.25, 1.625, Stays},
	} {
		was, fresh := row(ep.Even, 0, 64, 128), row(ep.Even, 0, 64, 512)
		was.Evidence.Gain, was.Evidence.GainLow, was.Evidence.GainHigh = 2, 1.75, 2.125
		fresh.Evidence.Gain, fresh.Evidence.GainLow, fresh.Evidence.GainHigh = c.gain, c.lo, c.hi
		m, d, err := Merge(sealed(was), sealed(fresh), Rule{Band: 0.125})
		if err != nil || len(d) != 1 || d[0].Effect != c.want {
			t.Errorf("%s: %v %v, want %s", c.name, d, err, c.want)
			continue
		}
		if won := m.Rows[0].Config.Int("threads") == 512; won != (c.want == Replaced) {
			t.Errorf("%s: %s, but the row is %v", c.name, c.want, m.Rows[0].Config)
		}
	}
}

func TestLaterEvidenceIsTaken(t *testing.T) {
	early, late, more := row(ep.Even, 0, 64, 128), row(ep.Even, 0, 64, 128), row(ep.Even, 0, 64, 128)
	late.Evidence.Date, late.Evidence.Median = day.Add(time.Hour), 26e-6
	more.Evidence.Rounds, more.Evidence.Median = 60, 25.5e-6
	for _, c := range []struct {
		old, fresh table.Row
		want       float64
		effects    string
	}{{early, late, 26e-6, "[refreshed]"}, {late, early, 26e-6, "[]"}, {early, more, 25.5e-6, "[refreshed]"}, {more, early, 25.5e-6, "[]"}, {late, more, 26e-6, "[]"}} {
		m, overlaps := mergedBy(t, sealed(c.old), sealed(c.fresh), Rule{})
		effects := []Effect{}
		for _, o := range overlaps {
			effects = append(effects, o.Effect)
		}
		if m.Rows[0].Evidence.Median != c.want || fmt.Sprint(effects) != c.effects {
			t.Errorf("median %g, want %g; %v, want %s", m.Rows[0].Evidence.Median, c.want, effects, c.effects)
		}
	}
}

func TestMergedHeader(t *testing.T) {
	a, b := sealed(row(ep.Even, 0, 64, 128)), sealed(row(ep.Skewed, 0, 64, 128))
	a.Header.Tool, a.Header.Space, a.Header.Policy, a.Header.TrialLog = "1", "s + t", "", "y"
	a.Header.Machine.Driver, a.Header.Fallback, a.Header.AA, a.Header.Band = "early", []string{"hidden"}, 0.004, 0.02
	b.Header.Tool, b.Header.Space, b.Header.Policy, b.Header.TrialLog = "2", "r + s", "", "x"
	b.Header.Machine.Driver, b.Header.Created, b.Header.AA, b.Header.Band, b.Header.Edited = "late", day.Add(time.Hour), 0.005, 0.01, true
	want := map[bool]string{true: "[hidden]", false: "[]"}
	for _, aFirst := range []bool{true, false} {
		old, fresh := a, b
		if !aFirst {
			old, fresh = b, a
		}
		m, _ := mergedBy(t, old, fresh, Rule{})
		h := m.Header
		if h.Tool != "1 + 2" || h.Space != "r + s + t" || h.Policy != "" || h.TrialLog != "x + y" || h.AA != 0.005 || h.Band != 0.02 ||
			!h.Edited || h.Machine.Driver != "late" || !h.Created.Equal(day.Add(time.Hour)) || fmt.Sprint(h.Fallback) != want[aFirst] {
			t.Errorf("merged %+v", h)
		}
	}
}

func TestRunThatMeasuredBoth(t *testing.T) {
	all := []string{"uniform", "zipf:1.0", "hotrank:4"}
	for _, c := range []struct {
		name     string
		routings []string
		seconds  map[int]float64 // by threads; the incumbent has 128
		want     Effect
	}{
		{"the incumbent is slower under one routing", all, map[int]float64{128: 20, 512: 10}, Replaced},
		{"the incumbent is as fast", all, map[int]float64{128: 10.05, 512: 10}, Stays},
		{"the incumbent is slower by the band", all, map[int]float64{128: 8 * 1.25, 512: 8}, Stays},
		{"the incumbent is slower by more than the band", all, map[int]float64{128: 8 * 1.26, 512: 8}, Replaced},
		{"the run measured only its own config", all, map[int]float64{512: 10}, Stays},
		{"the run measured fewer routings", all[:2], map[int]float64{128: 20, 512: 10}, Stays},
		{"the run measured fewer routings, with a larger gain", all[:2], nil, Stays},
		{"the run measured one routing, which makes no row for all routings", all[:1], map[int]float64{128: 20, 512: 10}, ""},
	} {
		fresh := row(ep.AllRoutings, 64, 64, 512)
		fresh.Evidence.Gain, fresh.Evidence.GainLow, fresh.Evidence.GainHigh, fresh.Evidence.Routings = 1.05, 1.04, 1.06, c.routings
		if c.seconds == nil {
			fresh.Evidence.Gain, fresh.Evidence.GainLow, fresh.Evidence.GainHigh = 2, 1.9, 2.1
		}
		rule := Rule{Band: 0.25, Measured: func(k table.Key, tokens int, routing string, cfg ep.Config) (float64, bool) {
			s, ok := c.seconds[cfg.Int("threads")]
			if routing != "hotrank:4" {
				s = 10
			}
			return s, ok && k == key(ep.AllRoutings) && tokens == 64
		}}
		was := row(ep.AllRoutings, 64, 64, 128)
		was.Evidence.Routings = all
		_, d, err := Merge(sealed(was), sealed(fresh), rule)
		if c.want == "" && len(d) == 0 && err == nil {
			continue
		}
		if err != nil || len(d) != 1 || d[0].Effect != c.want {
			t.Errorf("%s: %v %v, want %s", c.name, d, err, c.want)
		}
	}
}

func TestMergeRefusesWhatCannotBeCompared(t *testing.T) {
	for want, edit := range map[string]func(*table.Header){
		"max_sms: ": func(h *table.Header) { h.MaxSMs = 24 },
		"machine: ": func(h *table.Header) { h.Machine.SMs = 114 },
		"abi: ":     func(h *table.Header) { h.ABI = "abi2" },
	} {
		b := sealed()
		edit(&b.Header)
		if _, _, err := Merge(sealed(), b, Rule{Band: 0.01}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}

func TestFallbackIsTheIncumbents(t *testing.T) {
	old := sealed(row(ep.Even, 1, 8, 128))
	old.Header.Fallback = []string{"top_k", "hidden"}
	k := key(ep.Even)
	k.Hidden++
	if a := old.Lookup(k, 4); a.Reason != table.Fallback {
		t.Errorf("another hidden size: the reason is %s", a.Reason)
	}
	late := sealed(row(ep.Even, 16, 16, 128))
	late.Header.Created = old.Header.Created.Add(time.Hour)
	merged, _, err := Merge(old, late, Rule{Band: 0.01})
	if err != nil || !slices.Equal(merged.Header.Fallback, old.Header.Fallback) {
		t.Errorf("%v %v", merged, err)
	}
	old.Header.Fallback = []string{"ranks"}
	if err := old.Seal(); err == nil || !strings.Contains(err.Error(), "use some of") {
		t.Errorf("ranks was accepted as a fallback field: %v", err)
	}
}
