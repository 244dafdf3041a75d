package receipt

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

// claims returns a table of rows with gain 2 [1.9, 2.1], and a receipt with the gains in `measured`.
func claims(t *testing.T, measured ...record.Interval) (*table.Table, *Receipt) {
	t.Helper()
	machine := ep.Machine{Backend: "cuda", SMs: 132, GPUs: 2}
	tab := &table.Table{Schema: table.Schema, Header: table.Header{Tool: "test", ABI: "one", Space: "s", Policy: "p", TrialLog: "log",
		Machine: machine, Created: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}}
	r := &Receipt{Machine: machine, ABI: "one"}
	for i, gain := range measured {
		row := table.Row{Key: table.KeyOf(problem, ep.Even), Lo: i + 1, Hi: i + 1, Config: ep.Config{Kernel: "direct"}.With("threads", "128"),
			Evidence: table.Evidence{Clock: "chain", Median: 1e-5, Rounds: 50, Gain: 2, GainLow: 1.9, GainHigh: 2.1, Tokens: []int{i + 1},
				Routings: []string{"uniform"}, Date: tab.Header.Created}}
		tab.Rows = append(tab.Rows, row)
		claim := Holds
		if gain.Low > 0 && gain.High < 1 {
			claim = Slower
		}
		r.Checks = append(r.Checks, Check{Key: row.Key, Tokens: i + 1, Routing: "uniform", Config: row.Config, Gain: gain, Claim: claim})
	}
	if err := tab.Seal(); err != nil {
		t.Fatal(err)
	}
	return tab, written(t, r)
}

// written returns the receipt that a reader of its file gets.
func written(t *testing.T, r *Receipt) *Receipt {
	t.Helper()
	var b bytes.Buffer
	if _, err := r.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	back, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func TestWiden(t *testing.T) {
	tab, r := claims(t, record.Interval{Mid: 2, Low: 1.95, High: 2.05}, record.Interval{Mid: 1.7, Low: 1.6, High: 1.8},
		record.Interval{Mid: 2.2, Low: 2.15, High: 2.3}, record.Interval{Mid: 0.9, Low: 0.88, High: 0.95}, record.Interval{})
	wide, changes, err := Widen(tab, []*Receipt{r})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, string(c.Effect))
	}
	if want := []string{"covered", "widened", "widened", "removed", "covered"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	var rows []string
	for _, row := range wide.Rows {
		rows = append(rows, fmt.Sprint(row.Lo, row.Evidence.Gain, row.Evidence.GainLow, row.Evidence.GainHigh))
	}
	if want := "1 2 1.9 2.1; 2 2 1.6 2.1; 3 2 1.9 2.3; 5 2 1.9 2.1"; strings.Join(rows, "; ") != want {
		t.Errorf("%s, want %s", strings.Join(rows, "; "), want)
	}
	if !slices.Equal(wide.Header.Receipts, []string{r.ID}) || len(tab.Rows) != 5 || tab.Header.Receipts != nil || tab.Rows[1].Evidence.GainLow != 1.9 {
		t.Errorf("receipts %v; the table before: %+v", wide.Header.Receipts, tab)
	}
	again, changes, err := Widen(wide, []*Receipt{r})
	if err != nil || again.ID != wide.ID || slices.ContainsFunc(changes, func(c Change) bool { return c.Effect != Covered }) {
		t.Errorf("a receipt that the table already has changes it: %+v, %v", changes, err)
	}
}

func TestWidenAnyOrder(t *testing.T) {
	tab, a := claims(t, record.Interval{Mid: 1.7, Low: 1.6, High: 1.8}, record.Interval{Mid: 0.9, Low: 0.88, High: 0.95})
	_, b := claims(t, record.Interval{Mid: 2.2, Low: 2.15, High: 2.3}, record.Interval{Mid: 2, Low: 1.95, High: 2.05})
	one, _, err := Widen(tab, []*Receipt{a, b})
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := Widen(tab, []*Receipt{b, a})
	if err != nil || one.ID != other.ID || len(one.Rows) != 1 || one.Rows[0].Evidence.GainLow != 1.6 || one.Rows[0].Evidence.GainHigh != 2.3 {
		t.Errorf("%+v, %v", one.Rows, err)
	}
}

func TestWidenOthers(t *testing.T) {
	less := record.Interval{Mid: 1.7, Low: 1.6, High: 1.8}
	for name, spoil := range map[string]func(*Receipt){
		"config": func(r *Receipt) { r.Checks[0].Config = r.Checks[0].Config.With("threads", "256") },
		"tokens": func(r *Receipt) { r.Checks[0].Tokens = 7 },
		"key":    func(r *Receipt) { r.Checks[0].Key.Ranks = 8 },
		"build":  func(r *Receipt) { r.ABI = "two" },
	} {
		tab, r := claims(t, less)
		spoil(r)
		wide, changes, err := Widen(tab, []*Receipt{r})
		if err != nil || len(changes) != 0 || wide.Rows[0].Evidence.GainLow != 1.9 {
			t.Errorf("%s: %+v, %v", name, changes, err)
		}
	}
	tab, r := claims(t, less)
	r.Machine.SMs = 78
	if _, _, err := Widen(tab, []*Receipt{r}); err == nil || !strings.Contains(err.Error(), "machine: the receipt is of ") {
		t.Errorf("%v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	_, r := claims(t, record.One)
	var b bytes.Buffer
	if _, err := r.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, c := range []struct{ text, want string }{
		{strings.Replace(text, `"mid": 1`, `"mid": 3`, 1), "id: the content does not hash to"},
		{strings.Replace(text, `"schema": 2`, `"schema": 9`, 1), "schema: 9, this build reads 2"},
		{strings.Replace(text, `"tool"`, `"fool"`, 1), "not a receipt of table verify: "},
		{text[:len(text)/2], "not a receipt of table verify: "},
		{"", "not a receipt of table verify: "},
		{"[]", "not a receipt of table verify: "},
	} {
		if c.text == text {
			t.Fatalf("%s: the test changes nothing", c.want)
		}
		if _, err := Read(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"schema":2,"id":"","checks":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := Read(bytes.NewReader(text)); err == nil && r == nil {
			t.Error("neither a receipt nor an error")
		}
	})
}

// TestWidenCertifies: the check must hold, be newer than the row, and have the row's revision.
func TestWidenCertifies(t *testing.T) {
	for _, c := range []struct {
		name     string
		build    ep.ABI
		claim    Claim
		later    time.Duration
		want     ep.ABI
		protocol int
		changes  int
	}{
		{"holds", "direct=2f", Holds, time.Hour, "direct=2f", 1, 1},
		{"holds with the same build", "direct=1f", Holds, time.Hour, "direct=1f", 1, 1},
		{"made before the row was measured", "direct=2f", Holds, -time.Hour, "direct=1f", 0, 1},
		{"shrunk", "direct=2f", Shrunk, time.Hour, "direct=1f", 0, 1},
		{"another revision", "direct=2.2f", Holds, time.Hour, "direct=1f", 0, 0},
	} {
		tab, r := claims(t, record.Interval{Mid: 2, Low: 1.95, High: 2.05})
		tab.Header.ABI, tab.Rows[0].ABI = "direct=1f", "direct=1f"
		r.Protocol, r.ABI, r.Checks[0].Claim, r.Created = 1, c.build, c.claim, tab.Header.Created.Add(c.later)
		wide, changes, err := Widen(tab, []*Receipt{written(t, r)})
		if err != nil || len(changes) != c.changes || wide.Rows[0].ABI != c.want || wide.Rows[0].Evidence.Protocol != c.protocol || tab.Rows[0].ABI != "direct=1f" {
			t.Errorf("%s: %d changes, build %q, want %q, protocol %d, want %d; %v", c.name, len(changes), wide.Rows[0].ABI, c.want, wide.Rows[0].Evidence.Protocol, c.protocol, err)
		}
	}
}
