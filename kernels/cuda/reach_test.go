package cuda

import (
	"fmt"
	"testing"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// page is the unit in which a GPU maps memory of this size.
const page = 2 << 20

// blocksLL is how often a region of the ll state repeats its [max_tokens] part: by set and
// by source rank, see ll/layout.cuh. A call of n tokens touches the first n tokens of each.
func blocksLL(p ep.Problem) map[string]int {
	return map[string]int{"headers": 3 * p.Ranks, "slots": 2 * p.Ranks, "route": p.Ranks, "return": 2}
}

// packedHeap is the heap of a pack with the ll and final kernels in fp8 and bf16, in the
// order of native/epcomm/src/heap.c.
func packedHeap(p ep.Problem) heap {
	parts := []Region{{partControl, 256, 0}, {partAbort, 4, 0}, {"agree", 132, 0}, {partIDs, int64(4 * p.MaxTokens * p.TopK), 0}}
	p.Op, p.Dispatch = ep.Dispatch, ep.FP8
	wide := p
	wide.Dispatch = ep.BF16
	for i, r := range outputParts(p) {
		r.Bytes = max(r.Bytes, outputParts(wide)[i].Bytes)
		parts = append(parts, r)
	}
	for _, d := range []ep.DType{ep.FP8, ep.BF16} {
		p.Dispatch = d
		for _, s := range []state{llState, finalState} {
			rounds := []Region{{"dispatch", 4 * RoundWords, 0}, {"combine", 4 * RoundWords, 0}}
			for _, r := range append(rounds, stateParts(s, p)[1:]...) {
				r.Name = string(d) + r.Name
				parts = append(parts, r)
			}
		}
	}
	return newHeap(parts)
}

// span is bytes of the heap that a call touches.
type span struct{ at, bytes int64 }

// stateSpans are those of an ll state whose parts have a prefix: all of what has no
// tokens, and the first n tokens of every block of the rest. A peer's kernels write what
// belongs to one source rank alone.
func stateSpans(h heap, prefix string, p ep.Problem, n int, peer bool) (out []span) {
	blocks := blocksLL(p)
	for _, r := range regionsLL(p) {
		at, b := h.offset[prefix+llState.part(r.Name)], blocks[r.Name]
		if b == 0 {
			out = append(out, span{at, r.Bytes})
			continue
		}
		for i := range b {
			if peer && (r.Name == "route" || r.Name != "return" && i%p.Ranks != 0) {
				continue
			}
			each := r.Bytes / int64(b)
			out = append(out, span{at + int64(i)*each, each * int64(n) / int64(p.MaxTokens)})
		}
	}
	return out
}

// outputSpans are the rows of n tokens from every rank, spread evenly over ranks.
func outputSpans(h heap, p ep.Problem, n int) []span {
	rows, room := int64(n*p.TopK), int64(dtype.MaxRows(p))
	l := encodingOf(p)
	out := []span{{h.offset[partOut], rows * int64(l.Payload)}, {h.offset[partRowOffsets], 4 * int64(p.LocalExperts())}, {h.offset[partSrcInfo], 8 * rows}}
	for g := range int64(l.Scales) {
		out = append(out, span{h.offset[partScales] + g*room*int64(l.ScaleBytes), rows * int64(l.ScaleBytes)})
	}
	return out
}

// pages counts the pages that spans lie in.
func pages(all []span) int {
	seen := map[int64]bool{}
	for _, s := range all {
		for at := s.at / page; at <= (s.at+max(s.bytes, 1)-1)/page; at++ {
			seen[at] = true
		}
	}
	return len(seen)
}

// TestPagesOfShortCalls counts the pages that a pair of the ll kernels touches on a rank's
// own heap and on a peer's, in epcomm and in epbench-cuda. Regions are sized for the most
// tokens and short calls take the first part of each, so that both touch about as many:
// memory lying further apart does not tell them apart. Inputs, and what the experts and
// combine write, are on the heap in epbench-cuda alone.
func TestPagesOfShortCalls(t *testing.T) {
	for _, most := range []int{4096, 64} {
		for _, d := range []ep.DType{ep.FP8, ep.BF16} {
			p := ep.Problem{Op: ep.Pair, Mode: ep.Graph, Ranks: 2, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8, MaxTokens: most, Dispatch: d, Combine: ep.BF16}
			packed := packedHeap(p)
			if most == 4096 && packed.bytes>>20 != 3946 {
				t.Errorf("the heap has %d MiB, epbench pack show says 3946.9 of such a pack", packed.bytes>>20)
			}
			own := newHeap(append(append(rigParts(), problemParts(p)...), stateParts(llState, p)...))
			for _, n := range []int{8, 32} {
				inPack := append(outputSpans(packed, p, n), span{0, 1024})
				here := append(outputSpans(own, p, n), span{0, 1024}, span{own.offset[partReadings], 4096})
				for _, part := range []string{partX, partIDs, partWeights, partCombined} {
					here = append(here, span{own.offset[part], int64(n) * 2 * int64(p.Hidden)})
				}
				here = append(here, span{own.offset[partY], int64(n*p.TopK) * 2 * int64(p.Hidden)})
				inPack, here = append(inPack, stateSpans(packed, string(d), p, n, false)...), append(here, stateSpans(own, "", p, n, false)...)
				peerPack, peerHere := stateSpans(packed, string(d), p, n, true), stateSpans(own, "", p, n, true)
				text := fmt.Sprintf("max-tokens %d, %s, %d tokens: epcomm %d pages and %d of a peer, heap %d MiB; epbench-cuda %d and %d, heap %d MiB",
					most, d, n, pages(inPack), pages(peerPack), packed.bytes>>20, pages(here), pages(peerHere), own.bytes>>20)
				t.Log(text)
				if pages(inPack) > pages(here) || pages(peerPack) > pages(peerHere)+2 {
					t.Error(text)
				}
			}
		}
	}
}
