package declare

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// TestBadIDsCountAsMasked: kernels treat invalid expert ids as masked. A kernel that used such an id as an index would
// access memory outside the heap.
func TestBadIDsCountAsMasked(t *testing.T) {
	const team = "own=team,algo=dedup,in_flight=0,sms=2,wait_sms=0,threads=160"
	for _, c := range []struct {
		layout            ep.Layout
		d, c              Declaration
		dispatch, combine string
	}{
		{ep.LayoutMasked, dispatchMasked(), combineMaskedSlots(), "sms=3,threads=64", "sms=2,threads=64"},
		{ep.LayoutExpert, dispatchEP(), combineEP(), "sms=4,threads=64,count_sms=1", "sms=3,threads=64"},
		{ep.LayoutExpert, dispatchEP(), combineEP(), "sms=4,threads=64,count_sms=1,algo=dedup", "sms=3,threads=64,algo=dedup"},
		{ep.LayoutExpert, dispatchLL(), combineLL(), "sms=3,threads=128,receivers=1", "sms=2"},
		{ep.LayoutExpert, dispatchLLIDs(), combineLLPartial(), "sms=3,threads=128,receivers=0", "sms=2,threads=128"},
		{ep.LayoutExpert, dispatchFinal(), combineFinal(), "sms=3,wait_sms=1,threads=64", "sms=2,wait_sms=1,threads=64"},
		{ep.LayoutExpert128, dispatchFinalHome(), combineFinalPartial(), "sms=2,wait_sms=0,threads=64", "sms=2,wait_sms=0,threads=64"},
		{ep.LayoutExpert, dispatchFinal(), combineFinal(), "sms=2,wait_sms=0,threads=64", team},
	} {
		t.Run(c.layout.String()+" "+c.d.Kernel.Name+" "+c.dispatch+" "+c.c.Kernel.Name+" "+c.combine, func(t *testing.T) {
			t.Parallel()
			q := fastCase{pairProblem(ep.FP8, 2, 256, 8, 3, 9), []int{9, 7}, 0, 0.5, c.dispatch, c.combine, 1}
			q.p.Layout = c.layout
			e := q.prepare(t, c.d, c.c)
			e.spoilMaskedIDs()
			e.run(1, e.call(e.d, e.dc), e.experts(), e.call(e.c, e.cc))
			e.checkDispatch(ref.Compare{Ordered: c.d.Kernel.Name != "dispatch"})
			e.checkCombine(ref.Compare{Bits: true, Partial: partialOf(e.cc)})
		})
	}
}

// spoilMaskedIDs replaces each masked id by another id that names no expert.
func (e fastPair) spoilMaskedIDs() {
	bad := []int32{-2, 8, 9, 1 << 30, -1 << 31}
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
		e.t.Fatalf("only %d selections are masked", n)
	}
}

// TestIDsAreReadInOnePlace: kernels read ids with the functions of common/ids.cuh, which know the width of an id.
// epcomm/calls.cuh checks all 64 bits of ids, so it has functions of its own.
func TestIDsAreReadInOnePlace(t *testing.T) {
	for _, f := range everywhere() {
		files, err := sources.Closure(f.source)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if strings.HasSuffix(name, ".cuh") && name != "common/ids.cuh" && strings.Contains(sources.CodeOnly(text), "topk_ids") {
				t.Errorf("%s of kernel %s reads topk_ids; use ep_id or ep_load_id", name, f.Kernel.Name)
			}
		}
	}
}
