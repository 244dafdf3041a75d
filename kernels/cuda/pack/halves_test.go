package pack

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestPackOfAnObjective checks that a pack ignores rows of other objectives than the request's.
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

// TestHalves checks calls that are split into halves, to send and to receive. In layouts `masked` and `rank` they share
// memory with unsplit calls. In layout `expert` the pack has no split calls.
func TestHalves(t *testing.T) {
	with := func(l ep.Layout) *Pack {
		return build(t, func(r *Request) { r.Problem.Layout, r.DTypes, r.Raw = l, []ep.DType{ep.FP8}, l != ep.LayoutExpert })
	}
	for l, want := range map[ep.Layout][2]string{
		ep.LayoutMasked:     {"dispatch_masked:count=sender,input=fp8,mode=split", "combine_masked:algo=direct,mode=split"},
		ep.LayoutRank:       {"dispatch_rank:input=fp8,mode=split", "combine_rank:mode=split"},
		ep.LayoutRankPacked: {"dispatch_rank:input=fp8,mode=split", "combine_rank:mode=split"},
	} {
		p := with(l)
		for _, c := range ep.Classes() {
			for _, a := range p.Answers(ep.FP8, false, Halves, c) {
				if !strings.HasPrefix(a.Dispatch, want[0]) || !strings.HasPrefix(a.Combine, want[1]) {
					t.Errorf("layout %s, class %s: the halves are %s and %s", l, c, a.Dispatch, a.Combine)
				}
			}
			if len(p.Answers(ep.FP8, false, Halves, c)) == 0 {
				t.Errorf("%s, %s: no answer", l, c)
			}
		}
		if len(p.states) != 1 {
			t.Errorf("%s: %d states, want 1 for split and unsplit calls", l, len(p.states))
		}
	}
	if a := with(ep.LayoutExpert).Answers(ep.FP8, false, Halves, ep.Even); len(a) > 0 {
		t.Errorf("layout expert answers %s", a[0].Dispatch)
	}
}
