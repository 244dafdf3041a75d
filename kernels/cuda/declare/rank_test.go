package declare

import (
	"slices"
	"testing"

	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// TestEmulatedRank checks layout rank: calls alone, pairs, ranks of different speed, and a change of routing.
func TestEmulatedRank(t *testing.T) {
	checkEach(t, dispatchRank(), combineRank(), []fastCase{
		{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=3,threads=64", "sms=2,threads=64", 6},
		{pairProblem(ep.BF16, 1, 264, 4, 2, 7), []int{7}, 0, 0.2, "sms=2,threads=64", "sms=2,threads=64,wait_sms=1", 3},
		{pairProblem(ep.FP8, 4, 1152, 16, 4, 40), []int{40, 0, 33, 1}, 0.5, 0.2, "sms=3,threads=64,wait_sms=1,unit=1024", "sms=3,threads=64,wait_sms=1,unit=1024", 3},
		{pairProblem(ep.BF16, 3, 2880, 12, 3, 6), []int{6, 6, 1}, 0, 0, "sms=4,threads=96,unit=2048", "sms=4,threads=96,unit=2048", 3},
		{pairProblem(ep.BF16, 8, 256, 8, 8, 3), []int{3, 2, 1, 0}, 0, 0.3, "sms=2,threads=64", "sms=2,threads=64", 3},
		{pairProblem(ep.FP8, 2, 256, 64, 17, 3), []int{3, 2}, 0, 0.3, "sms=7,threads=64", "sms=2,threads=64", 3},
		{pairProblem(ep.BF16, 2, 256, 8, 2, 150), []int{150, 64}, 0.2, 0.1, "sms=3,threads=64", "sms=2,threads=64", 2},
		{pairProblem(ep.FP8, 3, 640, 12, 3, 9), []int{5, 9, 0}, 0, 0.2, "sms=10,threads=64", "sms=2,threads=64", 5},
	}, byRank...)
}

// TestEmulatedRankCarriesSentinels: a BF16 token of NaNs with every bit set looks like an empty slot. It must arrive
// and return.
func TestEmulatedRankCarriesSentinels(t *testing.T) {
	q := fastCase{p: pairProblem(ep.BF16, 2, 256, 8, 2, 3), tokens: []int{3, 2}, dispatch: "sms=2,threads=64", combine: "sms=2,threads=64", pairs: 3}
	for _, c := range []struct {
		layout            ep.Layout
		dispatch, combine Declaration
	}{{ep.LayoutRank, dispatchRank(), combineRank()}, {ep.LayoutMasked, dispatchMasked(), combineMaskedSlots()}} {
		q := q
		q.p.Layout = c.layout
		t.Run(c.layout.String(), func(t *testing.T) {
			t.Parallel()
			e := q.prepare(t, c.dispatch, c.combine)
			e.poison(PartX, PartY)
			e.run(q.pairs, e.call(e.d, e.dc), e.call(e.c, e.cc))
			e.noFaults()
			for r, g := range e.w.Ranks {
				allNaN(t, e.part(r, PartCombined)[:g.Tokens*q.p.Hidden*2])
			}
		})
	}
}

// TestEmulatedRankHome is TestEmulatedRank with rows=home.
func TestEmulatedRankHome(t *testing.T) {
	checkEach(t, dispatchRankHome(), combineRank(), []fastCase{
		{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=3,threads=64", "sms=2,threads=64", 6},
		{pairProblem(ep.BF16, 1, 264, 4, 2, 7), []int{7}, 0, 0.2, "sms=2,threads=64", "sms=2,threads=64,wait_sms=1", 3},
		{pairProblem(ep.FP8, 4, 1152, 16, 4, 40), []int{40, 0, 33, 1}, 0.5, 0.2, "sms=3,threads=64,wait_sms=1,unit=1024", "sms=3,threads=64,wait_sms=1,unit=1024", 3},
		{pairProblem(ep.BF16, 3, 2880, 12, 3, 6), []int{6, 6, 1}, 0, 0, "sms=4,threads=96,unit=2048", "sms=4,threads=96,unit=2048", 3},
		{pairProblem(ep.BF16, 8, 256, 8, 8, 3), []int{3, 2, 1, 0}, 0, 0.3, "sms=2,threads=64", "sms=2,threads=64", 3},
		{pairProblem(ep.FP8, 2, 256, 64, 17, 3), []int{3, 2}, 0, 0.3, "sms=7,threads=64,unit=2048", "sms=2,threads=64", 3},
		{pairProblem(ep.BF16, 2, 256, 8, 2, 300), []int{300, 64}, 0.2, 0.1, "sms=3,threads=64,wait_sms=1", "sms=2,threads=64,wait_sms=1", 2},
		{pairProblem(ep.FP8, 3, 4608, 12, 3, 9), []int{5, 9, 0}, 0, 0.2, "sms=10,threads=64", "sms=2,threads=64", 3},
	}, byRank...)
}

// TestEmulatedRankStaged is TestEmulatedRank with rows=staged.
func TestEmulatedRankStaged(t *testing.T) {
	checkEach(t, dispatchRank(), combineRank(), []fastCase{
		{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=3,threads=64,rows=staged", "sms=2,threads=64", 6},
		{pairProblem(ep.BF16, 1, 264, 4, 2, 7), []int{7}, 0, 0.2, "sms=2,threads=64,rows=staged", "sms=2,threads=64,wait_sms=1", 3},
		{pairProblem(ep.FP8, 4, 1152, 16, 4, 40), []int{40, 0, 33, 1}, 0.5, 0.2, "sms=3,threads=96,unit=1024,rows=staged", "sms=3,threads=96,unit=1024", 3},
		{pairProblem(ep.BF16, 3, 2880, 12, 3, 6), []int{6, 6, 1}, 0, 0, "sms=4,threads=96,unit=2048,rows=staged", "sms=4,threads=96,unit=2048", 3},
		{pairProblem(ep.BF16, 8, 256, 8, 8, 3), []int{3, 2, 1, 0}, 0, 0.3, "sms=2,threads=64,rows=staged", "sms=2,threads=64", 3},
		{pairProblem(ep.BF16, 2, 7168, 8, 2, 80), []int{80, 64}, 0.2, 0.1, "sms=3,threads=64,wait_sms=1,unit=2048,rows=staged", "sms=3,threads=64,unit=512", 2},
		{pairProblem(ep.FP8, 3, 4608, 12, 3, 90), []int{50, 90, 0}, 0, 0.2, "sms=2,threads=64,rows=staged", "sms=2,threads=96", 3},
	}, byRank...)
}

// TestRankFollow: all designs of dispatch_rank follow each other without a barrier. Each call leaves the slots empty
// and announces its counts.
func TestRankFollow(t *testing.T) {
	for _, layout := range byRank {
		q := fastCase{pairProblem(ep.FP8, 4, 640, 16, 4, 9), []int{9, 7, 0, 1}, 0, 0.2, "sms=5,threads=64,wait_sms=1", "sms=2,threads=96", 3}
		q.p.Layout = layout
		e := q.prepare(t, dispatchRankHome(), combineRank())
		slots := e.call(dispatchRank(), overDefault(t, dispatchRank(), q.p, "sms=5,threads=64"))
		staged := e.call(dispatchRank(), overDefault(t, dispatchRank(), q.p, "rows=staged,sms=3,threads=64"))
		e.late()
		for range 2 {
			for _, call := range [][]string{e.call(e.d, e.dc), slots, staged, slots} {
				e.poison(PartOut, PartScales, PartRowOffsets, PartSrcInfo, PartExpertIDs)
				e.run(2, call)
				e.checkDispatch(ref.Compare{Ordered: true})
			}
		}
	}
}

// TestEmulatedMasked is TestEmulatedRank for layout masked.
func TestEmulatedMasked(t *testing.T) {
	checkEach(t, dispatchMasked(), combineMaskedSlots(), []fastCase{
		{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=3,threads=64", "sms=2,threads=64", 6},
		{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=3,threads=64", "sms=2,threads=64,algo=dedup", 6},
		{pairProblem(ep.BF16, 1, 264, 4, 2, 7), []int{7}, 0, 0.2, "sms=2,threads=64", "sms=2,threads=64,wait_sms=1,algo=dedup", 3},
		{pairProblem(ep.FP8, 4, 1152, 16, 4, 80), []int{80, 0, 33, 1}, 0.5, 0.2, "sms=3,threads=64,wait_sms=1,unit=1024", "sms=3,threads=64,wait_sms=1,unit=1024", 3},
		{pairProblem(ep.BF16, 3, 2880, 12, 3, 6), []int{6, 6, 1}, 0, 0, "sms=4,threads=96,unit=2048", "sms=4,threads=96,unit=2048,algo=dedup", 3},
		{pairProblem(ep.BF16, 8, 256, 8, 8, 3), []int{3, 2, 1, 0}, 0, 0.3, "sms=2,threads=64", "sms=2,threads=64,algo=dedup", 3},
		{pairProblem(ep.FP8, 2, 256, 64, 17, 3), []int{3, 2}, 0, 0.3, "sms=7,threads=64", "sms=2,threads=64", 3},
		{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=3,threads=64", "sms=2,threads=64,own=registers", 6},
		{pairProblem(ep.FP8, 4, 1152, 16, 4, 80), []int{80, 0, 33, 1}, 0.5, 0.2, "sms=3,threads=64,wait_sms=1,unit=1024", "sms=3,threads=96,own=registers,receivers=1", 3},
		{pairProblem(ep.BF16, 8, 256, 8, 8, 3), []int{3, 2, 1, 0}, 0, 0.3, "sms=2,threads=64", "sms=2,threads=64,own=registers,algo=dedup", 3},
		{pairProblem(ep.BF16, 2, 264, 64, 8, 40), []int{40, 17}, 0, 0.3, "sms=4,threads=96", "sms=3,threads=64,own=registers", 3},
		{pairProblem(ep.BF16, 4, 256, 16, 2, 300), []int{300, 200, 40, 1}, 0.6, 0.3, "sms=4,threads=64,wait_sms=1", "sms=4,threads=64,wait_sms=0,unit=512,own=registers", 2},
	}, ep.LayoutMasked)
}

// TestMaskedRace is TestRankRace for layout masked.
func TestMaskedRace(t *testing.T) {
	q := fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=3,threads=64,wait_sms=1", "sms=2,threads=64,algo=dedup", 3}
	q.p.Layout = ep.LayoutMasked
	e := q.prepare(t, dispatchMasked(), combineMaskedSlots())
	e.tools = need(t, raceTools)
	q.checkCalls(e)
	q.combine = "sms=2,threads=64,own=registers"
	e = q.prepare(t, dispatchMasked(), combineMaskedSlots())
	e.tools = need(t, raceTools)
	q.checkCalls(e)
}

// TestRankRace: a fence, a barrier or a kernel's end orders every plain access of memory.
func TestRankRace(t *testing.T) {
	for _, layout := range byRank {
		q := fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=3,threads=64,wait_sms=1", "sms=2,threads=64", 3}
		q.p.Layout = layout
		t.Run(layout.String(), func(t *testing.T) {
			t.Parallel()
			for _, rows := range []string{"slot", "home", "staged"} {
				q := q
				q.dispatch += ",rows=" + rows
				e := q.prepare(t, dispatchRank(), combineRank())
				e.tools = need(t, raceTools)
				q.checkCalls(e)
			}
		})
	}
}

// TestRankStartsOutsideTheHeap: some config that a search starts with can write outputs outside the symmetric heap.
func TestRankStartsOutsideTheHeap(t *testing.T) {
	k := dispatchRank().Kernel
	for _, sms := range []int{2, 24, 64, 65, 132} {
		for _, tokens := range []int{1, 17, 256, 257, 8192} {
			for _, d := range []ep.DType{ep.BF16, ep.FP8} {
				p := ep.Problem{Ranks: 2, Nodes: 1, Tokens: tokens, MaxTokens: 8192, Hidden: 7168, Experts: 256, TopK: 8, Dispatch: d, Combine: ep.BF16, Layout: ep.LayoutRankPacked}
				outside := slices.ContainsFunc(k.StartsWithin(h200, p, sms), func(c ep.Config) bool { return !holds(c, "rows=home") })
				if !outside {
					t.Errorf("%d SMs, %d tokens, %s: every start has rows=home", sms, tokens, d)
				}
			}
		}
	}
}
