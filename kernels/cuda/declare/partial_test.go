package declare

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// TestLowLatencyPartialEmulated: the outputs of combine_ll_partial equal those of an oracle that sums in the same
// order, bit for bit. The problem and the dispatch are those of TestLowLatencyEmulated, so that less must be compiled.
func TestLowLatencyPartialEmulated(t *testing.T) {
	oncePerRun(t)
	q := fastCase{pairProblem(ep.FP8, 4, 640, 16, 4, 9), []int{9, 7, 0, 1}, 0, 0.2,
		"sms=5,threads=64,early=0,receivers=1,send=1024,part=1024", "sms=2,threads=96,receivers=1", 10}
	q.checkCalls(q.prepare(t, dispatchLL(), combineLLPartial()))
}

// TestPartialLegality checks which configs of kernels with partial sums are legal.
func TestPartialLegality(t *testing.T) {
	p := pairProblem(ep.FP8, 2, 7168, 256, 8, 128)
	alone := p
	alone.Ranks = 1
	for _, f := range []Declaration{combineLLPartial(), combineFinalPartial()} {
		if err := f.Check(onCPU(), alone, overDefault(t, f, alone, "")); err == nil || !strings.Contains(err.Error(), "no other rank") {
			t.Errorf("%s on one rank: %v", f.Kernel.Name, err)
		}
	}
	for changes, want := range map[string]string{
		"":                       "",
		"algo=dedup":             "",
		"threads=64,receivers=1": "",
		"threads=64,receivers=2": "receivers: 2",
		"algo=fp8":               "algo:",
		"own=smem":               "own:",
		"pdl=2":                  "pdl:",
		"sms=133":                "sms: 133",
	} {
		f := combineLLPartial()
		err := f.Check(onCPU(), p, overDefault(t, f, p, changes))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", changes, err, want)
		}
	}
}

// TestPartialPrecision: a problem of full precision gets f32 sums, not BF16 sums.
func TestPartialPrecision(t *testing.T) {
	p := pairProblem(ep.BF16, 2, 7168, 256, 8, 128)
	f := combineLLPartial()
	own := f.Kernel.DefaultConfig(onCPU(), p)
	if q := f.Kernel.Changes(kernels.Precision, own, own.With("algo", "dedup")); q != "algo" {
		t.Errorf("algo=dedup changes %q, want algo", q)
	}
	if own.Str("algo") != "direct" || f.Judged(p, own).Partial == f.Judged(p, own.With("algo", "dedup")).Partial {
		t.Errorf("%s is judged as %+v", own.Key(), f.Judged(p, own))
	}
}

// oncePerRun skips the test with -short.
func oncePerRun(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs device code, which -short leaves out")
	}
}
