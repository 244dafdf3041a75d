package declare

import (
	"testing"

	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// TestEmulatedRaw: tokens that the caller has converted to FP8 arrive unchanged.
func TestEmulatedRaw(t *testing.T) {
	for _, x := range []struct {
		layout            ep.Layout
		dispatch, combine Declaration
	}{
		{ep.LayoutRank, dispatchRank(), combineRank()},
		{ep.LayoutRank, dispatchRankHome(), combineRank()},
		{ep.LayoutRankPacked, dispatchRank(), combineRank()},
		{ep.LayoutRankPacked, dispatchRankHome(), combineRank()},
		{ep.LayoutMasked, dispatchMasked(), combineMaskedSlots()},
		{ep.LayoutMasked, dispatchMaskedIDs(), combineMaskedSlots()},
		{ep.LayoutExpert, dispatchLL(), combineLL()},
		{ep.LayoutExpert, dispatchLLIDs(), combineLL()},
		{ep.LayoutExpert128, splitting(dispatchLL()), combineLL()},
	} {
		q := fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 3}, 0.3, 0, "sms=3,threads=64", "sms=2,threads=64", 6}
		q.p.Layout = x.layout
		t.Run(x.layout.String()+" "+x.dispatch.Kernel.Name, func(t *testing.T) {
			t.Parallel()
			q.raw(t, x.dispatch, x.combine)
		})
	}
}

// raw runs a dispatch on FP8 tokens and checks the outputs.
func (q fastCase) raw(t *testing.T, dispatch, combine Declaration) {
	e := q.prepare(t, dispatch, combine)
	for r := range q.p.Ranks {
		for token := range e.w.Ranks[r].Tokens {
			row := e.oracle.Token(r, token)
			copy(e.part(r, PartX)[token*q.p.Hidden:], row.Payload)
			copy(e.part(r, PartInputScale)[token*len(row.Scales):], row.Scales)
		}
	}
	e.run(1, e.call(e.d, e.dc.With("input", "fp8")))
	e.checkDispatch(ref.Compare{Ordered: true})
}
