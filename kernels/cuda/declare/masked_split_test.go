package declare

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestEmulatedMaskedSplit: the split pair gives the oracle's bytes on grids of different sizes.
func TestEmulatedMaskedSplit(t *testing.T) {
	checkEach(t, splitting(dispatchMasked()), splitting(combineMasked()), []fastCase{
		{pairProblem(ep.FP8, 3, 256, 12, 3, 40), []int{40, 0, 1}, 0, 0.3, "sms=2,recv_sms=4,threads=64", "sms=3,recv_sms=1,threads=64,algo=dedup", 10},
		{pairProblem(ep.FP8, 3, 256, 12, 3, 40), []int{40, 0, 1}, 0, 0.3, "sms=2,recv_sms=4,threads=64", "sms=3,recv_sms=1,threads=64,own=registers", 10},
	}, ep.LayoutMasked)
}

// TestEmulatedRankSplit is TestEmulatedMaskedSplit for layouts rank and rank:packed.
func TestEmulatedRankSplit(t *testing.T) {
	checkEach(t, splitting(dispatchRank()), splitting(combineRank()), []fastCase{
		{pairProblem(ep.FP8, 3, 256, 12, 3, 40), []int{40, 0, 1}, 0, 0.3, "sms=2,recv_sms=4,threads=64", "sms=3,recv_sms=1,threads=64", 10},
	}, byRank...)
}

// TestMaskedSplitDefaults: combine_masked_split defaults to algo=direct with full precision, to algo=dedup with reduced
// precision.
func TestMaskedSplitDefaults(t *testing.T) {
	p := pairProblem(ep.FP8, 8, 512, 64, 8, 300)
	p.Layout = ep.LayoutMasked
	for precision, algo := range map[ep.Precision]string{ep.Full: "direct", ep.Reduced: "dedup"} {
		q := p
		q.Op, q.Precision = ep.Combine, precision
		if c := splitting(combineMasked()).Kernel.DefaultConfig(onCPU(), q); c.Str("algo") != algo {
			t.Errorf("%s precision sends with algo=%s, want %s", precision, c.Str("algo"), algo)
		}
	}
	p.Precision = ep.Reduced
	for _, f := range []Declaration{splitting(dispatchMasked()), splitting(combineMasked())} {
		p.Op = f.Kernel.Op
		c := f.Kernel.DefaultConfig(onCPU(), p)
		if err := f.Check(onCPU(), p, c); err != nil {
			t.Errorf("the default: %v", err)
		}
		for _, name := range []string{"sms", "recv_sms"} {
			if err := f.Check(onCPU(), p, c.With(name, "133")); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=133: %v", name, err)
			}
		}
		if l := f.Launches(p, c.With("recv_sms", "7")); len(l) != 2 || l[0].Params.WaitSMs != 0 || l[1].Grid != 7 {
			t.Errorf("launches %+v", l)
		}
	}
}
