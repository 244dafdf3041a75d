package cuda

import (
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// Partial sums of either precision give the oracle's bits in their own order, for every
// rank count and routing: tokens with one row on a rank, with many and with none. The
// problems and dispatches are those of TestLowLatencyEmulated, compiled once for both.
func TestLowLatencyPartialEmulated(t *testing.T) {
	for _, q := range []fastCase{
		{pairProblem(ep.FP8, 8, 512, 64, 8, 4), []int{1, 0, 4, 3}, 0.7, 0,
			"sms=3,threads=128,early=0,receivers=2,pause=100,part=512", "sms=3,threads=128,receivers=1", 10},
		{pairProblem(ep.BF16, 2, 512, 80, 3, 7), []int{7, 3}, 0.5, 0,
			"sms=1,threads=64,early=1,receivers=0", "sms=1,threads=96,receivers=2,partial=bf16", 20},
	} {
		t.Run(q.name(), func(t *testing.T) {
			t.Parallel()
			q.drill(q.prepare(t, dispatchLL(), combineLLPartial()))
		})
	}
}

func TestPartialLegality(t *testing.T) {
	p := pairProblem(ep.FP8, 2, 7168, 256, 8, 128)
	for changes, want := range map[string]string{
		"":                       "",
		"partial=bf16":           "",
		"threads=64,receivers=1": "",
		"threads=64,receivers=2": "receivers: 2",
		"partial=fp8":            "partial:",
		"pdl=2":                  "pdl:",
		"sms=133":                "sms: 133",
	} {
		f := combineLLPartial()
		err := f.kernel.Check(onCPU(), p, overDefault(t, f, p, changes))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", changes, err, want)
		}
	}
}

// The caller who needs full precision gets f32 sums, not BF16 ones.
func TestPartialPrecision(t *testing.T) {
	p := pairProblem(ep.BF16, 2, 7168, 256, 8, 128)
	f := combineLLPartial()
	own := f.kernel.DefaultConfig(onCPU(), p)
	if q := f.kernel.Changes(own, own.With("partial", "bf16")); q != "partial" {
		t.Errorf("partial=bf16 changes %q, want partial", q)
	}
	if own.Str("partial") != "f32" || f.judged(p, own).Partial == f.judged(p, own.With("partial", "bf16")).Partial {
		t.Errorf("%s is judged as %+v", own.Key(), f.judged(p, own))
	}
}
