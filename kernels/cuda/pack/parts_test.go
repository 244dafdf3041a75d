package pack

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestCallsTakeNoMoreSharedMemoryThanTheyNeed: each call gets at most an eighth more shared memory
// than it needs.
func TestCallsTakeNoMoreSharedMemoryThanTheyNeed(t *testing.T) {
	p := build(t, nil,
		row(ep.Dispatch, 1, 2000, "dispatch_ll_ids:part=512,pdl=0,send=512,sms=64,threads=256", 10),
		row(ep.Dispatch, 2001, 4096, dispatchLL, 100), row(ep.Combine, 1, 4096, combineLL, 200))
	for tokens, want := range map[int]uint32{1: 1, 32: 1, 33: 2, 64: 2, 65: 3, 224: 7, 225: 9, 288: 9, 289: 11, 2000: 63, 2001: 0, 4096: 0} {
		if got := sharedOf(t, p, tokens); got != want<<10 {
			t.Errorf("%d tokens: dispatch launches with %d bytes of shared memory, want %d", tokens, got, want<<10)
		}
	}
	if a := said(t, p, ep.Dispatch, ep.Even, 50); a.Lo != 1 || a.Hi != 2000 {
		t.Errorf("a row for 1 to 2,000 tokens is shown as %d to %d", a.Lo, a.Hi)
	}
}

// sharedOf reads a dispatch's dynamic shared bytes from the pack's file.
func sharedOf(t *testing.T, p *Pack, tokens int) uint32 {
	t.Helper()
	for _, l := range read[lookupRecord](t, p, secLookups) {
		if purposeNames[l.Purpose] != ep.Dispatch || int(l.Class) != ep.Even.Index() {
			continue
		}
		for _, r := range read[runRecord](t, p, secRuns)[l.FirstRun : l.FirstRun+l.Runs] {
			if tokens <= int(r.Last) {
				c := read[configRecord](t, p, secConfigs)[read[planRecord](t, p, secPlans)[r.Plan].Dispatch]
				return read[launchRecord](t, p, secLaunches)[c.FirstLaunch].Shared
			}
		}
	}
	t.Fatalf("no run for %d tokens", tokens)
	return 0
}

func read[T any](t *testing.T, p *Pack, section int) []T {
	t.Helper()
	out, err := records[T](p, section)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestForcedCallsHaveAMost: with forced configs, Problem.Tokens is the largest token count of a call (0: no limit).
func TestForcedCallsHaveAMost(t *testing.T) {
	only := forced(dispatchLL, combineLL)
	for _, c := range []struct {
		only              *[2]ep.Config
		most, asked, want int
	}{{only, 100, 500, 100}, {only, 100, 50, 50}, {only, 0, 500, 500}, {nil, 100, 500, 500}} {
		r := Request{Problem: shape, DTypes: []ep.DType{ep.BF16}, Machine: machine, Only: c.only}
		r.Problem.Tokens = c.most
		if got := r.resolver(ep.BF16, false, ep.Even).at(ep.Dispatch, c.asked).Tokens; got != c.want {
			t.Errorf("%d tokens of at most %d: %d, want %d", c.asked, c.most, got, c.want)
		}
	}
}

// TestAnswersCoverAllTokens: answers reach max-tokens. Rows of this build are certified; defaults are not.
func TestAnswersCoverAllTokens(t *testing.T) {
	p := build(t, nil, row(ep.Dispatch, 1, shape.MaxTokens-1, dispatchLL, 10))
	all := p.Answers(ep.BF16, false, ep.Dispatch, ep.Even)
	first, last := all[0], all[len(all)-1]
	if first.Lo != 1 || last.Lo != shape.MaxTokens || last.Hi != shape.MaxTokens {
		t.Errorf("the answers are for %d to %d tokens, the last from %d", first.Lo, last.Hi, last.Lo)
	}
	if !first.Certified || last.Certified || !last.Uncovered {
		t.Errorf("certified: row %v, default %v", first.Certified, last.Certified)
	}
	if strings.Contains(first.Text, "measured with other") {
		t.Error(first.Text)
	}
}
