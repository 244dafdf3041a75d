package workloads

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// plainEPLB returns the load of each rank, in ascending order. It follows deepseek-ai/EPLB's eplb.py.
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

func TestPlacedLoad(t *testing.T) {
	// Each of the three copies of expert 0 has load 3.
	p, err := Rebalance([]int64{9, 2, 2, 1}, 2, 2)
	if err != nil || len(p.Slots[0]) != 3 {
		t.Fatal(p, err)
	}
	l := newPlacedLoadOver(p, 1)
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
		if l.BetweenRanks[1][r] != l.Ranks[r] || l.BetweenRanks[0][r] != 0 {
			t.Errorf("pairs %v, ranks %v: all tokens come from rank 1", l.BetweenRanks, l.Ranks)
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
	c := newPlacedLoadOver(p, 1)
	c.Expert(0, 10)
	if got := []int64{c.Slots[p.Slots[0][0]], c.Slots[p.Slots[0][1]], c.Slots[p.Slots[0][2]]}; !slices.Equal(got, []int64{4, 3, 3}) {
		t.Errorf("10 selections among three replicas: %v, want 4, 3 and 3", got)
	}
	if _, err := Rebalance(make([]int64, 8), 3, 4); err == nil || err.Error() != "8 experts and 3 redundant ones are 11 slots, which do not divide among 4 ranks" {
		t.Error(err)
	}
}

// plainHierarchical follows rebalance_experts_hierarchical of eplb.py. It returns the sorted loads by host.
func plainHierarchical(load []int64, redundant, ranks, hosts, groups int) (out [][]float64) {
	size := len(load) / groups
	type group struct {
		experts []int64
		sum     int64
	}
	all := make([]group, groups)
	for g := range all {
		all[g].experts = load[g*size : (g+1)*size]
		for _, n := range all[g].experts {
			all[g].sum += n
		}
	}
	slices.SortStableFunc(all, func(a, b group) int { return int(b.sum - a.sum) })
	sums, mine := make([]int64, hosts), make([][]int64, hosts)
	for _, g := range all {
		to := -1
		for h := range hosts {
			if len(mine[h]) < groups/hosts*size && (to < 0 || sums[h] < sums[to]) {
				to = h
			}
		}
		sums[to] += g.sum
		mine[to] = append(mine[to], g.experts...)
	}
	for h := range hosts {
		out = append(out, plainEPLB(mine[h], redundant/hosts, ranks/hosts))
	}
	sortHosts(out)
	return out
}

func sameSum(x, y float64) bool { return math.Abs(x-y) <= 1e-12*math.Abs(y) }

func sortHosts(loads [][]float64) {
	for _, l := range loads {
		slices.Sort(l)
	}
	slices.SortFunc(loads, func(a, b []float64) int {
		return slices.CompareFunc(a, b, func(x, y float64) int {
			if sameSum(x, y) {
				return 0
			}
			return cmp.Compare(x, y)
		})
	})
}

// TestRebalanceOverIsEPLB draws loads without ties, because EPLB does not order equal loads.
func TestRebalanceOverIsEPLB(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts := rapid.IntRange(2, 4).Draw(t, "hosts")
		ranks := hosts * rapid.IntRange(1, 3).Draw(t, "ranks of a host")
		groups := hosts * rapid.IntRange(1, 3).Draw(t, "groups of a host")
		size := ranks / hosts * rapid.IntRange(1, 3).Draw(t, "experts of a group")
		redundant := ranks * rapid.IntRange(0, 2).Draw(t, "redundant slots of a rank")
		load := rapid.Permutation(seq(groups*size)).Draw(t, "load")
		for i, n := range load {
			load[i] = 1_000_003*(n+1)*(n+1) + 7919*n*n*n + 1
		}
		p, err := RebalanceOver(load, redundant, ranks, hosts, groups)
		if err != nil {
			t.Fatal(err)
		}
		got := make([][]float64, hosts)
		for h := range got {
			got[h] = make([]float64, ranks/hosts)
		}
		hostOf := map[int]int{}
		for e, slots := range p.Slots {
			for _, s := range slots {
				r := p.Rank(s)
				got[r/(ranks/hosts)][r%(ranks/hosts)] += float64(load[e]) / float64(len(slots))
				if h, known := hostOf[e/size]; known && h != r/(ranks/hosts) {
					t.Fatalf("group %d lies on hosts %d and %d", e/size, h, r/(ranks/hosts))
				}
				hostOf[e/size] = r / (ranks / hosts)
			}
		}
		sortHosts(got)
		want := plainHierarchical(load, redundant, ranks, hosts, groups)
		for h := range want {
			for r := range want[h] {
				if !sameSum(got[h][r], want[h][r]) {
					t.Fatalf("loads %v, EPLB gives %v", got, want)
				}
			}
		}
	})
}

func seq(n int) (out []int64) {
	for i := range n {
		out = append(out, int64(i))
	}
	return out
}

func TestRebalanceOverFallsBack(t *testing.T) {
	load := []int64{9, 2, 2, 1, 5, 5, 8, 3}
	global, err := Rebalance(load, 4, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]int{{1, 1}, {1, 4}, {2, 1}, {4, 2}} {
		p, err := RebalanceOver(load, 4, 4, c[0], c[1])
		if err != nil || !slices.EqualFunc(p.Slots, global.Slots, slices.Equal) {
			t.Errorf("%d hosts, %d groups: %v, %v; the global policy gives %v", c[0], c[1], p, err, global.Slots)
		}
	}
	p, err := RebalanceOver(load, 4, 4, 2, 4)
	if err != nil || slices.EqualFunc(p.Slots, global.Slots, slices.Equal) {
		t.Errorf("the hierarchical policy gives the placement of the global policy: %v", err)
	}
	for _, c := range [][4]int{{4, 4, 2, 6}, {1, 3, 2, 4}, {3, 5, 2, 4}} {
		if _, err := RebalanceOver(load, c[0], c[1], c[2], c[3]); err == nil {
			t.Errorf("%v was placed", c)
		}
	}
}

func TestRemoteHosts(t *testing.T) {
	blocks, err := InBlocks(8, 4)
	if err != nil {
		t.Fatal(err)
	}
	l := newPlacedLoadOver(blocks, 2)
	for _, ids := range [][]int32{{0, 3}, {4, 7}, {1, 6}} {
		l.Token(0, ids)
	}
	if l.Remote != 2 {
		t.Errorf("%d copies cross hosts, want 2", l.Remote)
	}
	// A token of rank 3, on host 1, selects expert 0 on host 0.
	l.Token(3, []int32{0, -1})
	if l.Remote != 3 || l.MaxMeanHost(2) != 4.0/3.5 {
		t.Errorf("%d copies, busiest host %g times the mean; want 3 and %g", l.Remote, l.MaxMeanHost(2), 4.0/3.5)
	}
}

func TestRankOfSlots(t *testing.T) {
	p := &Placement{Ranks: 2, Slots: [][]int32{{0, 5}, {1}, {2, 3}, {4}}}
	if n := p.SlotCount(); n != 6 {
		t.Errorf("%d slots, want 6", n)
	}
	for slot, want := range []int{0, 0, 0, 1, 1, 1} {
		if got := p.Rank(int32(slot)); got != want {
			t.Errorf("slot %d lies on rank %d, want %d", slot, got, want)
		}
	}
}
