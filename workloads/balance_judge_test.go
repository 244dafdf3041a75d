package workloads

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/epbench/epbench/workloads/trace"
)

func drawnTrace(t *testing.T, spec string) string {
	t.Helper()
	p := v3(300)
	p.Experts, p.TopK, p.Ranks = 64, 4, 8
	w := mustNew(t, spec, p, 3)
	path := filepath.Join(t.TempDir(), "t.npy")
	out, err := trace.Create(path, 4, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, rt := range w.Ranks {
		if err := out.Write(rt.Experts, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// plainJudge returns the busiest rank's load divided by the mean load, without and with the placement `after`.
func plainJudge(ids [][]int32, experts, ranks int, after *Placement) (before, placed float64) {
	second := ids[len(ids)/2:]
	blocks, slots := make([]float64, ranks), make([]float64, ranks)
	turn := make([]int, experts)
	total := 0.0
	for _, row := range second {
		for _, e := range row {
			if e < 0 {
				continue
			}
			total++
			blocks[int(e)*ranks/experts]++
			all := after.Slots[e]
			slots[int(all[turn[e]%len(all)])*ranks/after.SlotCount()]++
			turn[e]++
		}
	}
	return slices.Max(blocks) * float64(ranks) / total, slices.Max(slots) * float64(ranks) / total
}

func rowsOfTrace(t *testing.T, path string, layer int) (rows [][]int32, experts int) {
	t.Helper()
	r, err := trace.Open(path, trace.Options{Layer: layer})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		row := make([]int32, r.TopK)
		n, err := r.Read(row, nil)
		if n == 1 {
			rows = append(rows, row)
			experts = max(experts, int(slices.Max(row))+1)
		}
		if err != nil {
			return rows, experts
		}
	}
}

func TestJudgeBalance(t *testing.T) {
	for _, c := range []struct {
		name, path string
		layer      int
		gain       float64 // least ratio of the loads before and after
	}{
		{"recorded", "../testdata/traces/sglang_per_token.pt", 1, 0.8},
		{"zipf", drawnTrace(t, "zipf:1.2"), -1, 1.3},
		{"hot rank", drawnTrace(t, "hotrank:3"), -1, 1.5},
		{"uniform", drawnTrace(t, "uniform+masked:0.2"), -1, 0.9},
	} {
		rows, experts := rowsOfTrace(t, c.path, c.layer)
		const ranks, redundant = 4, 8
		experts = (experts + ranks - 1) / ranks * ranks
		open := func() (*trace.Reader, error) { return trace.Open(c.path, trace.Options{Layer: c.layer}) }
		r, err := JudgeBalance(open, BalanceOptions{Ranks: ranks, Redundant: redundant, Windows: 5}, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		load := make([]int64, experts)
		for _, row := range rows[:len(rows)/2] {
			for _, e := range row {
				if e >= 0 {
					load[e]++
				}
			}
		}
		p, err := Rebalance(load, redundant, ranks)
		if err != nil {
			t.Fatal(err)
		}
		before, after := plainJudge(rows, experts, ranks, p)
		got := r.After.MaxMeanRank()
		if r.Before.MaxMeanRank() != before || got != after {
			t.Errorf("%s: the ratio is %v before and %v after the placement; plainJudge gives %v and %v", c.name, r.Before.MaxMeanRank(), got, before, after)
		}
		if before/got < c.gain {
			t.Errorf("%s: the ratio is %v before and %v after the placement, less than a gain of %v", c.name, before, got, c.gain)
		}
		if r.Planned != int64(len(rows)/2) || r.Judged != int64(len(rows)-len(rows)/2) || r.After.Tokens != r.Judged || len(r.Windows) > 5 || r.Windows[len(r.Windows)-1].Tokens != r.Judged {
			t.Errorf("%s: planned for %d tokens and judged on %d of %d, in the windows %v", c.name, r.Planned, r.Judged, len(rows), r.Windows)
		}
	}
}

func TestBalanceIsJudgedLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.npy")
	out, err := trace.Create(path, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int32(200) {
		if err := out.Write([]int32{i % 2 * 7 * (i / 100)}, nil); err != nil { // first half: expert 0; second: 0 and 7
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := JudgeBalance(func() (*trace.Reader, error) { return trace.Open(path, trace.Options{Layer: -1, Kind: trace.IDs}) }, BalanceOptions{Ranks: 4, Redundant: 4, Windows: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Expert 0 has five replicas with 10 selections each, and expert 7 one slot with 50.
	if n := len(r.After.Slots); n != 12 || r.After.MaxMeanSlot() != 6 {
		t.Errorf("%d slots, %v: the placement must come from the first half alone", n, r.After.Slots)
	}
	if _, err := JudgeBalance(func() (*trace.Reader, error) { return trace.Open(path, trace.Options{Layer: -1, Kind: trace.IDs}) }, BalanceOptions{Ranks: 4, Experts: 4, Windows: 1}, nil); err == nil || err.Error() != "the trace has expert 7, but 4 experts were asked for; ask for at least 8" {
		t.Error(err)
	}
}
