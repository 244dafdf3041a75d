package declare

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// TestLowLatencySplitEmulated: with mode=split dispatch_ll and combine_ll give the oracle's bytes, also with grids of
// different sizes.
func TestLowLatencySplitEmulated(t *testing.T) {
	checkEach(t, splitting(dispatchLL()), splitting(combineLL()), []fastCase{
		{pairProblem(ep.FP8, 4, 512, 64, 8, 4), []int{1, 0, 4, 3}, 0.7, 0, "sms=3,recv_sms=2,threads=128,part=512", "sms=1,recv_sms=3,threads=128,algo=dedup", 30},
		{pairProblem(ep.BF16, 8, 264, 32, 6, 6), []int{6, 2, 5}, 0, 0.3, "sms=2,recv_sms=2,threads=128,part=1024,send=1024", "sms=2,recv_sms=1,threads=64", 10},
		{pairProblem(ep.BF16, 2, 512, 80, 3, 7), []int{7, 3}, 0.5, 0, "sms=1,recv_sms=2,threads=64", "sms=1,recv_sms=1,threads=96,algo=dedup", 20},
	})
	mixed := fastCase{pairProblem(ep.FP8, 2, 256, 8, 2, 5), []int{5, 2}, 0, 0, "sms=2,recv_sms=1,threads=64", "sms=2,threads=64", 10}
	t.Run("mixed", func(t *testing.T) { mixed.checkCalls(mixed.prepare(t, splitting(dispatchLL()), combineLL())) })
}

// splitting returns f with mode=split as default.
func splitting(f Declaration) Declaration {
	f.Kernel.Default = f.Kernel.Split
	return f
}

// TestSplitReceiverIsBounded: the error for a receiving grid that cannot be resident names its parameter.
func TestSplitReceiverIsBounded(t *testing.T) {
	p := pairProblem(ep.FP8, 8, 512, 64, 8, 4)
	for _, f := range []Declaration{splitting(dispatchLL()), splitting(combineLL())} {
		p.Op = f.Kernel.Op
		c := f.Kernel.DefaultConfig(onCPU(), p)
		if err := f.Check(onCPU(), p, c); err != nil {
			t.Errorf("the default: %v", err)
		}
		for _, n := range []ep.Value{"0", "133"} {
			if err := f.Check(onCPU(), p, c.With("recv_sms", n)); err == nil || !strings.Contains(err.Error(), "recv_sms") {
				t.Errorf("recv_sms=%s: %v", n, err)
			}
		}
		if l := f.Launches(p, c.With("pdl", "1").With("recv_sms", "7")); len(l) != 2 || l[0].Grid != 132 || l[1].Grid != 7 || l[1].Params.SMs != 7 || l[1].PDL {
			t.Errorf("launches %+v", l)
		}
	}
}

// TestFormerSplitKernels: configs of former split kernels are legal and launch the same entries.
func TestFormerSplitKernels(t *testing.T) {
	for text, entries := range map[string]string{
		"dispatch_ll_split:part=512,pdl=0,recv_sms=64,send=512,sms=32,threads=512":           "dispatch_ll_send dispatch_ll_recv",
		"combine_ll_split:algo=dedup,pdl=1,recv_sms=3,sms=2,threads=512":                     "combine_ll_send combine_ll_recv",
		"dispatch_masked_split:input=fp8,pdl=1,recv_sms=132,sms=132,threads=512,unit=512":    "dispatch_masked_send dispatch_masked_recv",
		"combine_masked_split:algo=direct,pdl=1,recv_sms=132,sms=132,threads=512,unit=512":   "combine_masked_send combine_masked_recv",
		"dispatch_ll:early=0,part=512,pause=0,pdl=0,receivers=8,send=512,sms=64,threads=512": "dispatch_ll",
		"combine_masked:algo=dedup,pdl=1,sms=132,threads=512,unit=512,wait_sms=16":           "combine_masked",
	} {
		old, err := ep.ParseConfig(text)
		if err != nil {
			t.Fatal(err)
		}
		c := kernels.Current(Kernels(), old)
		f, err := Find(c.Kernel)
		if err != nil {
			t.Error(err)
			continue
		}
		p := pairProblem(ep.FP8, 8, 512, 64, 8, 128)
		p.Op, p.Layout = f.Kernel.Op, append(f.Kernel.Layouts, ep.LayoutExpert)[0]
		if err := f.Check(onCPU(), p, c); err != nil {
			t.Errorf("the old config %s became %s: %v", text, c.Key(), err)
		}
		var got []string
		for _, l := range f.Launches(p, c) {
			got = append(got, l.Entry)
		}
		if strings.Join(got, " ") != entries {
			t.Errorf("%s launches %v, want %s", text, got, entries)
		}
		if !ABI().Accepts(ep.NewABI(map[string]string{old.Kernel: ep.Word(1, "0123456789abcdef")})) {
			t.Errorf("a row of %s is not accepted", old.Kernel)
		}
	}
}
