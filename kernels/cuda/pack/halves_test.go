package pack

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestPackOfAnObjective: a pack takes only the table rows of its request's objective. With objective
// beside these may be rows of kernels with split phases.
func TestPackOfAnObjective(t *testing.T) {
	const split = "dispatch_ll:count=sender,early=0,input=bf16,mode=split,part=512,pause=0,pdl=0,receivers=0,recv_sms=64,send=512,sms=32,threads=512"
	alone, beside := row(ep.Dispatch, 1, 4096, dispatchLL, 10), row(ep.Dispatch, 1, 4096, split, 5)
	beside.Key.Objective = ep.BesideProduct
	for objective, want := range map[ep.Objective]string{ep.Alone: dispatchLL, ep.BesideProduct: split} {
		p := build(t, func(r *Request) { r.Problem.Objective = objective }, alone, beside)
		if a := said(t, p, ep.Dispatch, ep.Even, 100); a.Dispatch != want {
			t.Errorf("%s: %s, want %s", objective, a.Dispatch, want)
		}
	}
}

// TestHalves: a call in halves is a call whose sending and receiving are two launches. For such calls a
// pack of layout masked answers with kernels that hold no SMs between the halves and use the memory of
// its other calls. In other layouts such kernels would need separate memory, so their packs have no
// answer.
func TestHalves(t *testing.T) {
	with := func(l ep.Layout) *Pack {
		return build(t, func(r *Request) { r.Problem.Layout, r.DTypes, r.Raw = l, []ep.DType{ep.FP8}, l != ep.LayoutExpert })
	}
	p := with(ep.LayoutMasked)
	for _, c := range ep.Classes() {
		for _, a := range p.Answers(ep.FP8, false, Halves, c) {
			if !strings.HasPrefix(a.Dispatch, "dispatch_masked:count=sender,input=fp8,mode=split") || !strings.HasPrefix(a.Combine, "combine_masked:algo=direct,mode=split") {
				t.Errorf("%s: %s, %s", c, a.Dispatch, a.Combine)
			}
		}
		if len(p.Answers(ep.FP8, false, Halves, c)) == 0 {
			t.Errorf("%s: no answer", c)
		}
	}
	if len(p.states) != 1 {
		t.Errorf("%d states, the halves must share one with the whole calls", len(p.states))
	}
	for _, l := range []ep.Layout{ep.LayoutExpert, ep.LayoutRank} {
		if a := with(l).Answers(ep.FP8, false, Halves, ep.Even); len(a) > 0 {
			t.Errorf("layout %s answers %s", l, a[0].Dispatch)
		}
	}
}
