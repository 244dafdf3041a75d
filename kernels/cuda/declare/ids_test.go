package declare

import (
	"encoding/binary"
	"testing"

	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// TestMaskedIgnoresBadIDs: kernels of layout masked treat invalid expert ids as masked. A kernel that used such
// an id as an index would access memory outside the heap.
func TestMaskedIgnoresBadIDs(t *testing.T) {
	bad := []int32{-2, 8, 9, 1 << 30, -1 << 31}
	q := fastCase{pairProblem(ep.FP8, 2, 256, 8, 3, 9), []int{9, 7}, 0, 0.5, "sms=3,threads=64", "sms=2,threads=64", 1}
	q.p.Layout = ep.LayoutMasked
	e := q.prepare(t, dispatchMasked(), combineMaskedSlots())
	n := 0
	for r := range e.w.Problem.Ranks {
		for i, id := range e.w.Ranks[r].Experts {
			if id < 0 {
				binary.LittleEndian.PutUint32(e.part(r, PartIDs)[4*i:], uint32(bad[n%len(bad)]))
				n++
			}
		}
	}
	if n < len(bad) {
		t.Fatalf("only %d selections are masked", n)
	}
	e.run(1, e.call(e.d, e.dc), e.experts(), e.call(e.c, e.cc))
	e.checkDispatch(ref.Compare{Ordered: true})
	e.checkCombine(ref.Compare{Bits: true, Partial: partialOf(e.cc)})
}
