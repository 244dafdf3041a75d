package receipt

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/sweep"
	"github.com/epbench/epbench/tune/table"
)

// merged is the CPU backend after tiled_dispatch was renamed to dispatch with tile_tokens=32.
type merged struct {
	kernels.Backend
	abi ep.ABI
}

func (m merged) ABI() ep.ABI { return m.abi }

func (m merged) Kernels() []kernels.Kernel {
	out := slices.Clone(m.Backend.Kernels())
	for i := range out {
		if out[i].Name == "dispatch" {
			out[i].Formerly = map[string]kernels.Former{"tiled_dispatch": {Revision: 1, Values: map[string]ep.Value{"tile_tokens": "32"}}}
		}
	}
	return out
}

const mergedABI ep.ABI = "dispatch=bb,tiled_dispatch=1."

// renamedTable returns a sealed table with one row of the former kernel, and today's backend.
func renamedTable(t *testing.T) (*table.Table, merged) {
	t.Helper()
	open, err := cpu.Open()
	if err != nil {
		t.Fatal(err)
	}
	b := merged{open, mergedABI}
	config := kernels.Of(b.Kernels(), ep.Dispatch)[0].DefaultConfig(b.Machine(), problem)
	config.Kernel = "tiled_dispatch"
	delete(config.Values, "tile_tokens")
	tab := &table.Table{Schema: table.Schema, Header: table.Header{Tool: "test", ABI: "tiled_dispatch=aa", Space: "s", Policy: "p",
		TrialLog: "log", Machine: b.Machine(), Created: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}}
	tab.Rows = []table.Row{{Key: table.KeyOf(problem, ep.Even), Lo: 8, Hi: 8, Config: config, Evidence: table.Evidence{
		Clock: "wall", Median: 1e-5, Rounds: 50, Gain: 2, GainLow: 1.9, GainHigh: 2.1, Tokens: []int{8}, Routings: []string{"uniform"}, Date: tab.Header.Created}}}
	if err := tab.Seal(); err != nil {
		t.Fatal(err)
	}
	return tab, b
}

// TestRenamedRowIsMeasuredUnderItsPresentName: Config has the kernel's name in the table, and Launched has
// today's name.
func TestRenamedRowIsMeasuredUnderItsPresentName(t *testing.T) {
	tab, b := renamedTable(t)
	row := &tab.Rows[0]
	if host := (table.Host{Machine: b.Machine(), ABI: b.abi}); !host.Accepts(tab.Header, *row) || host.Certifies(tab.Header, *row) {
		t.Fatal("the row is not of an earlier build")
	}
	checks, err := Row(context.Background(), sweep.NewRowVerifier(b, policy(), tab.Header, 1), row)
	if err != nil || len(checks) != 1 || checks[0].Claim == Failed || checks[0].Gain.Mid <= 0 {
		t.Fatalf("%+v, %v", checks, err)
	}
	got := checks[0]
	if got.Config.Key() != row.Config.Key() || got.Launched.Kernel != "dispatch" || got.Launched.Values["tile_tokens"] != "32" {
		t.Errorf("measured %s as %s", got.Config.Key(), got.Launched.Key())
	}
}

// TestRenamedRowIsWidened: a receipt certifies a row only for the build that ran.
func TestRenamedRowIsWidened(t *testing.T) {
	tab, b := renamedTable(t)
	checks, err := Row(context.Background(), sweep.NewRowVerifier(b, policy(), tab.Header, 1), &tab.Rows[0])
	if err != nil {
		t.Fatal(err)
	}
	checks[0].Gain, checks[0].Claim = record.Interval{Mid: 1.9, Low: 1.8, High: 2}, Holds // times on the CPU vary
	r := written(t, &Receipt{Machine: b.Machine(), ABI: b.abi, Created: tab.Header.Created.Add(time.Hour), Checks: checks})
	wide, changes, err := Widen(tab, []*Receipt{r})
	if err != nil || len(changes) != 1 || changes[0].Effect != Widened || wide.Rows[0].Evidence.GainLow != 1.8 {
		t.Fatalf("%+v, %v", changes, err)
	}
	if row := wide.Rows[0]; row.ABI != "dispatch=bb" || row.Config.Key() != tab.Rows[0].Config.Key() || wide.Header.ABI != "dispatch=bb,tiled_dispatch=aa" {
		t.Errorf("certified for %q, header %q", row.ABI, wide.Header.ABI)
	}
	for abi, certified := range map[ep.ABI]bool{mergedABI: true, "dispatch=cc,tiled_dispatch=1.": false} {
		host := table.Host{Machine: b.Machine(), ABI: abi}
		if host.Certifies(wide.Header, wide.Rows[0]) != certified || !host.Accepts(wide.Header, wide.Rows[0]) {
			t.Errorf("build %s: certified %v, want %v", abi, !certified, certified)
		}
	}
	if again, _, err := Widen(wide, []*Receipt{r}); err != nil || again.ID != wide.ID {
		t.Errorf("the receipt changes the table again: %v", err)
	}
}

func TestWidenTakesReceiptsByTime(t *testing.T) {
	tab, a := claims(t, record.Interval{Mid: 2, Low: 1.95, High: 2.05})
	tab.Header.ABI = "direct=1f"
	later := *a
	a.ABI, a.Created, later.ABI, later.Created = "direct=2f", tab.Header.Created.Add(time.Hour), "direct=3f", tab.Header.Created.Add(2*time.Hour)
	a, b := written(t, a), written(t, &later)
	for _, order := range [][]*Receipt{{a, b}, {b, a}} {
		wide, _, err := Widen(tab, order)
		if err != nil || wide.Rows[0].ABI != "direct=3f" || wide.Header.ABI != "direct=3f" {
			t.Errorf("certified for %q, header %q, %v", wide.Rows[0].ABI, wide.Header.ABI, err)
		}
	}
}
