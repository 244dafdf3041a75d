package declare

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// TestMaskedIDsEmulated: receiving blocks of dispatch_masked_ids count rows and write them in the order of layout
// masked.
func TestMaskedIDsEmulated(t *testing.T) {
	oncePerRun(t)
	for _, q := range []struct {
		fastCase
		c Declaration
	}{
		{fastCase{pairProblem(ep.FP8, 4, 640, 16, 4, 9), []int{9, 7, 0, 1}, 0, 0.2,
			"sms=5,threads=64,send=1024,part=1024", "sms=4,wait_sms=2,threads=64", 3}, combineMaskedSlots()},
		{fastCase{pairProblem(ep.BF16, 2, 256, 80, 3, 100), []int{70, 3}, 0.5, 0,
			"sms=7,threads=128,part=512", "sms=4,threads=128,algo=dedup", 2}, combineMaskedSlots()},
		{fastCase{pairProblem(ep.FP8, 8, 256, 64, 8, 4), []int{1, 0, 4, 3}, 0.7, 0.1,
			"sms=3,threads=64,part=512", "sms=2,recv_sms=3,threads=64,algo=dedup", 2}, splitting(combineMasked())},
		{fastCase{pairProblem(ep.BF16, 1, 256, 4, 2, 5), []int{5}, 0, 0,
			"sms=1,threads=544", "sms=2,threads=64,algo=dedup", 2}, combineMaskedSlots()},
		{fastCase{pairProblem(ep.FP8, 4, 640, 16, 4, 9), []int{9, 7, 0, 1}, 0, 0.2,
			"sms=5,threads=64,send=1024,part=1024", "sms=4,threads=96,own=registers,receivers=1", 3}, combineMaskedSlots()},
	} {
		q.p.Layout = ep.LayoutMasked
		t.Run(q.name(), func(t *testing.T) {
			t.Parallel()
			q.checkCalls(q.prepare(t, dispatchMaskedIDs(), q.c))
		})
	}
}

// TestMaskedIDsFollow: the layout's three dispatches follow each other in every order, without a barrier. Calls n and
// n+3 use the same words, so each kernel must clear another kernel's words.
func TestMaskedIDsFollow(t *testing.T) {
	oncePerRun(t)
	q := fastCase{p: pairProblem(ep.FP8, 3, 640, 12, 3, 9), tokens: []int{9, 7, 0}, masked: 0.2,
		dispatch: "sms=3,threads=64,send=1024,part=1024", combine: "sms=2,threads=64"}
	q.p.Layout = ep.LayoutMasked
	e := q.prepare(t, dispatchMaskedIDs(), combineMaskedSlots())
	calls := [][]string{
		e.call(e.d, e.dc),
		e.call(dispatchMasked(), overDefault(t, dispatchMasked(), q.p, "sms=4,threads=64,wait_sms=2")),
		e.call(splitting(dispatchMasked()), overDefault(t, splitting(dispatchMasked()), q.p, "sms=2,recv_sms=3,threads=64")),
	}
	e.late()
	for _, i := range []int{0, 1, 0, 1, 1, 1, 0, 0, 0, 2, 0, 2, 2, 1, 2, 1, 0, 0, 2} {
		e.poison(PartOut, PartScales, PartRowOffsets, PartSrcInfo, PartExpertIDs)
		e.run(1, calls[i])
		e.checkDispatch(ref.Compare{Ordered: true})
	}
}

// TestMaskedIDsParams: with count=receiver, dispatch_masked refuses parameters without effect.
func TestMaskedIDsParams(t *testing.T) {
	f, p := dispatchMaskedIDs(), pairProblem(ep.FP8, 2, 7168, 256, 8, 128)
	p.Layout, p.Op = ep.LayoutMasked, ep.Dispatch
	c := f.Kernel.DefaultConfig(onCPU(), p)
	if err := f.Check(onCPU(), p, c); err != nil {
		t.Errorf("the default: %v", err)
	}
	for _, changed := range []string{"wait_sms=8", "unit=1024", "mode=split", "part=768"} {
		name, _, _ := strings.Cut(changed, "=")
		if err := f.Check(onCPU(), p, overDefault(t, f, p, changed)); err == nil || !strings.HasPrefix(err.Error(), name+":") {
			t.Errorf("%s: %v", changed, err)
		}
	}
	p.Layout = ep.LayoutExpert
	if f.Check(onCPU(), p, c) == nil {
		t.Error("the kernel accepts layout expert")
	}
}
