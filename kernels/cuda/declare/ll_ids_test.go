package declare

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// TestLowLatencyIDsEmulated: dispatch_ll_ids gives the oracle's bytes. Every combine of its state can follow.
func TestLowLatencyIDsEmulated(t *testing.T) {
	oncePerRun(t)
	for _, q := range []struct {
		fastCase
		c Declaration
	}{
		{fastCase{pairProblem(ep.FP8, 4, 640, 16, 4, 9), []int{9, 7, 0, 1}, 0, 0.2,
			"sms=5,threads=64,send=1024,part=1024", "sms=2,threads=96,receivers=1", 3}, combineLLPartial()},
		{fastCase{pairProblem(ep.BF16, 2, 256, 80, 3, 100), []int{70, 3}, 0.5, 0,
			"sms=7,threads=128,part=512", "sms=4,threads=128,algo=dedup", 2}, combineLL()},
		{fastCase{pairProblem(ep.FP8, 8, 256, 64, 8, 4), []int{1, 0, 4, 3}, 0.7, 0.1,
			"sms=3,threads=64,part=512", "sms=2,threads=64,algo=dedup", 2}, combineLL()},
		{fastCase{pairProblem(ep.BF16, 1, 256, 4, 2, 5), []int{5}, 0, 0,
			"sms=1,threads=544", "sms=2,threads=64,algo=dedup", 2}, combineLL()},
	} {
		t.Run(q.name(), func(t *testing.T) {
			t.Parallel()
			q.checkCalls(q.prepare(t, dispatchLLIDs(), q.c))
		})
	}
}

// TestLowLatencyIDsFollow: dispatch_ll and dispatch_ll_ids may follow each other without a barrier: each clears the
// other's headers.
func TestLowLatencyIDsFollow(t *testing.T) {
	oncePerRun(t)
	q := fastCase{p: pairProblem(ep.FP8, 4, 640, 16, 4, 9), tokens: []int{9, 7, 0, 1}, masked: 0.2,
		dispatch: "sms=5,threads=64,send=1024,part=1024", combine: "sms=2,threads=96,receivers=1"}
	e := q.prepare(t, dispatchLLIDs(), combineLLPartial())
	counting := e.call(dispatchLL(), overDefault(t, dispatchLL(), q.p, "sms=5,threads=64,early=0,receivers=1,send=1024,part=1024"))
	e.late()
	for range 2 {
		for _, call := range [][]string{e.call(e.d, e.dc), counting} {
			e.poison(PartOut, PartScales, PartRowOffsets, PartSrcInfo, PartExpertIDs)
			e.run(2, call)
			e.checkDispatch(ref.Compare{Ordered: true})
		}
	}
}

// TestLowLatencyIDsRace: a barrier and the flag `ready` order the warps' writes of counts and marks.
func TestLowLatencyIDsRace(t *testing.T) {
	oncePerRun(t)
	q := fastCase{p: pairProblem(ep.FP8, 2, 256, 8, 2, 65), tokens: []int{9, 65}, dispatch: "sms=2,threads=128", combine: "sms=1"}
	e := q.prepare(t, dispatchLLIDs(), combineLL())
	e.tools = need(t, raceTools)
	e.run(3, e.call(e.d, e.dc))
	e.checkDispatch(ref.Compare{Ordered: true})
}

// TestLowLatencyIDsLegality: each error begins with the field or parameter. A call of few
// tokens is legal if the buffers have room for many tokens.
func TestLowLatencyIDsLegality(t *testing.T) {
	for _, q := range []struct {
		experts, maxTokens int
		changes, want      string
	}{
		{256, 128, "", ""},
		{256, 4096, "", ""},
		{256, 4097, "", "tokens: 4097 with 256 experts take 132096 bytes of shared memory, more than 131072; use at most 4096"},
		{1024, 1025, "", "tokens: 1025"},
		{256, 128, "threads=32", "threads: 32"},
		{256, 128, "sms=133", "sms: 133"},
		{256, 128, "send=0", "send:"},
		{256, 128, "part=768", "part:"},
		{256, 128, "pdl=2", "pdl:"},
	} {
		f, p := dispatchLLIDs(), pairProblem(ep.FP8, 2, 7168, q.experts, 8, q.maxTokens)
		err := f.Check(onCPU(), p, overDefault(t, f, p, q.changes))
		if (err == nil) != (q.want == "") || err != nil && !strings.HasPrefix(err.Error(), q.want) {
			t.Errorf("%d experts, %d tokens, %q: %v, want %q", q.experts, q.maxTokens, q.changes, err, q.want)
		}
	}
	p := pairProblem(ep.FP8, 2, 7168, 256, 8, 128)
	p.MaxTokens = 8192
	if err := dispatchLLIDs().Check(onCPU(), p, overDefault(t, dispatchLLIDs(), p, "")); err != nil || markBytes(p) != 4096 {
		t.Errorf("128 tokens in buffers for 8,192: the marks take %d bytes, error %v", markBytes(p), err)
	}
}
