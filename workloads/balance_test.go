package workloads

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// plainEPLB follows deepseek-ai/EPLB's eplb.py line by line, without any of this package's code:
// replicate_experts gives each redundant slot to the expert with the largest load per copy, and
// balanced_packing puts each slot, heaviest first, onto the lightest rank with room. plainEPLB
// returns the load of each rank, in ascending order.
func plainEPLB(load []int64, redundant, ranks int) []float64 {
	copies := make([]float64, len(load))
	for e := range copies {
		copies[e] = 1
	}
	for range redundant {
		most := 0
		for e := range load {
			if float64(load[e])/copies[e] > float64(load[most])/copies[most] {
				most = e
			}
		}
		copies[most]++
	}
	var slots []float64
	for e, n := range copies {
		for range int(n) {
			slots = append(slots, float64(load[e])/n)
		}
	}
	slices.SortFunc(slots, func(a, b float64) int { return int(math.Copysign(1, b-a)) })
	sums, items := make([]float64, ranks), make([]int, ranks)
	for _, w := range slots {
		to := -1
		for r := range ranks {
			if items[r] < len(slots)/ranks && (to < 0 || sums[r] < sums[to]) {
				to = r
			}
		}
		sums[to] += w
		items[to]++
	}
	slices.Sort(sums)
	return sums
}

// TestRebalanceIsEPLB compares Rebalance with a plain implementation, for random loads.
func TestRebalanceIsEPLB(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(1, 8).Draw(t, "ranks")
		per := rapid.IntRange(1, 6).Draw(t, "slots of a rank")
		redundant := rapid.IntRange(0, ranks*per-1).Draw(t, "redundant")
		load := rapid.SliceOfN(rapid.Int64Range(0, 1000), ranks*per-redundant, ranks*per-redundant).Draw(t, "load")
		p, err := Rebalance(load, redundant, ranks)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float64, ranks)
		held := map[int32]bool{}
		for e, slots := range p.Slots {
			for _, s := range slots {
				got[p.Rank(s)] += float64(load[e]) / float64(len(slots))
				held[s] = true
			}
		}
		slices.Sort(got)
		want := plainEPLB(load, redundant, ranks)
		for r := range want {
			if math.Abs(got[r]-want[r]) > 1e-6 {
				t.Fatalf("loads of ranks %v, EPLB gives %v", got, want)
			}
		}
		if len(held) != ranks*per || p.SlotCount() != ranks*per {
			t.Fatalf("%d slots hold experts, want %d", len(held), ranks*per)
		}
	})
}

// TestPlacedLoad compares the counts of a few tokens with counts made by hand.
func TestPlacedLoad(t *testing.T) {
	// Expert 0 has load 9 and gets both redundant slots, so each of its three copies has load 3.
	p, err := Rebalance([]int64{9, 2, 2, 1}, 2, 2)
	if err != nil || len(p.Slots[0]) != 3 {
		t.Fatal(p, err)
	}
	l := NewPlacedLoad(p)
	for range 3 {
		ids := []int32{0, -1}
		l.Token(1, ids)
		if ids[1] != -1 {
			t.Errorf("a masked selection became %d", ids[1])
		}
	}
	for _, s := range p.Slots[0] {
		if l.Slots[s] != 1 {
			t.Errorf("slots %v: replicas take turns", l.Slots)
		}
	}
	var sum int64
	for r := range 2 {
		sum += l.Ranks[r]
		if l.Pairs[1][r] != l.Ranks[r] || l.Pairs[0][r] != 0 {
			t.Errorf("pairs %v, ranks %v: all tokens come from rank 1", l.Pairs, l.Ranks)
		}
	}
	if sum != 3 || l.Tokens != 3 {
		t.Errorf("%d selections of %d tokens", sum, l.Tokens)
	}
	before, err := InBlocks(4, 2)
	if err != nil {
		t.Fatal(err)
	}
	if n := before.Copies(before); n != 0 {
		t.Errorf("%d experts are fetched although the placement stays the same", n)
	}
	if n := p.Copies(before); n < 1 || n > 3 {
		t.Errorf("%d experts are fetched by one rank, which has three slots", n)
	}
	c := NewPlacedLoad(p)
	c.Expert(0, 10)
	if got := []int64{c.Slots[p.Slots[0][0]], c.Slots[p.Slots[0][1]], c.Slots[p.Slots[0][2]]}; !slices.Equal(got, []int64{4, 3, 3}) {
		t.Errorf("10 selections among three replicas: %v, want 4, 3 and 3", got)
	}
	if _, err := Rebalance(make([]int64, 8), 3, 4); err == nil || err.Error() != "8 experts and 3 redundant ones are 11 slots, which do not divide among 4 ranks" {
		t.Error(err)
	}
}
