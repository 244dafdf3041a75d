package declare

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// TestFinalEmulated: dispatch_final and combine_final give the oracle's bytes.
func TestFinalEmulated(t *testing.T) {
	checkEach(t, dispatchFinal(), combineFinal(), []fastCase{
		{pairProblem(ep.FP8, 8, 512, 64, 8, 4), []int{1, 0, 4, 3}, 0.7, 0,
			"sms=3,wait_sms=1,threads=128,scales=tile", "sms=3,wait_sms=1,threads=64,algo=dedup,in_flight=12", 50},
		{pairProblem(ep.BF16, 8, 264, 32, 6, 6), []int{6, 2, 5}, 0, 0.3,
			"sms=2,wait_sms=0,threads=64", "sms=2,wait_sms=1,threads=64,in_flight=4", 10},
		{pairProblem(ep.FP8, 4, 1152, 16, 4, 19), []int{19, 7, 0, 1}, 0.5, 0.2,
			"sms=5,wait_sms=2,threads=64,algo=direct,scales=tile", "sms=3,wait_sms=0,threads=64,algo=dedup", 15},
		{pairProblem(ep.BF16, 2, 1032, 80, 3, 40), []int{40, 17}, 0.5, 0,
			"sms=4,wait_sms=1,threads=64", "sms=2,wait_sms=1,threads=64,algo=dedup", 10},
		{pairProblem(ep.BF16, 4, 128, 64, 32, 3), []int{3, 1, 2}, 0, 0.1,
			"sms=2,wait_sms=1,threads=64", "sms=2,wait_sms=1,threads=64", 10},
		{pairProblem(ep.FP8, 1, 256, 4, 2, 5), []int{5}, 0, 0,
			"sms=2,wait_sms=1,threads=64", "sms=1,wait_sms=0,threads=64", 5},
		{pairProblem(ep.FP8, 8, 256, 8, 1, 2), []int{0}, 0, 0,
			"sms=2,wait_sms=1,threads=64", "sms=2,wait_sms=1,threads=64,algo=dedup", 5},
	})
}

// TestStartsAreLegal: the configs of Kernel.Starts are legal with any number of SMs.
func TestStartsAreLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := onCPU()
		m.SMs = rapid.IntRange(1, 160).Draw(t, "sms")
		p := pairProblem(rapid.SampledFrom([]ep.DType{ep.BF16, ep.FP8}).Draw(t, "dtype"), 4, 512, 64, 8, 4)
		p.Tokens = rapid.IntRange(0, 128).Draw(t, "tokens")
		p.MaxTokens = 128
		for _, k := range []kernels.Kernel{dispatchFinal().Kernel, combineFinal().Kernel, combineLL().Kernel} {
			seen := map[string]bool{}
			for _, c := range append(k.Starts(m, p), k.Default(m, p)) {
				if err := k.Check(m, p, c); err != nil {
					t.Fatalf("%s: %v", c.Key(), err)
				}
				if m.SMs > 32 && seen[c.Key()] {
					t.Fatalf("%s is returned twice", c.Key())
				}
				seen[c.Key()] = true
			}
		}
	})
}

// TestFinalRegistersEmulated: with own=registers, a rank sums the rows of its own tokens in the same order as the
// oracle. Some tokens have no row on their own rank, and others have only one row on another rank.
func TestFinalRegistersEmulated(t *testing.T) {
	checkEach(t, dispatchFinal(), combineFinal(), []fastCase{
		{pairProblem(ep.FP8, 8, 512, 64, 8, 4), []int{1, 0, 4, 3}, 0.7, 0,
			"sms=3,wait_sms=1,threads=128", "own=registers,in_flight=8,sms=3,wait_sms=1,threads=64,algo=dedup", 50},
		{pairProblem(ep.BF16, 2, 2056, 32, 6, 6), []int{6, 2}, 0, 0.3,
			"sms=2,wait_sms=0,threads=64", "own=registers,in_flight=12,sms=2,wait_sms=0,threads=64", 10},
		{pairProblem(ep.BF16, 2, 1032, 80, 3, 40), []int{40, 17}, 0.5, 0,
			"sms=4,wait_sms=1,threads=64", "own=registers,in_flight=4,sms=2,wait_sms=1,threads=64,algo=dedup", 10},
		{pairProblem(ep.BF16, 4, 4104, 64, 8, 3), []int{3, 1, 2}, 0, 0.1,
			"sms=2,wait_sms=1,threads=64", "own=registers,in_flight=8,sms=2,wait_sms=1,threads=96", 10},
	})
}

// TestFinalTeamEmulated: with own=team, a rank sums the rows of its own tokens in the same order as the oracle. A row
// has one part or several, and the last part may be shorter. Some tokens have no row at all.
func TestFinalTeamEmulated(t *testing.T) {
	const team = "own=team,algo=dedup,in_flight=0,"
	checkEach(t, dispatchFinal(), combineFinal(), []fastCase{
		{pairProblem(ep.FP8, 8, 512, 64, 8, 4), []int{1, 0, 4, 3}, 0.7, 0,
			"sms=3,wait_sms=1,threads=128", team + "sms=3,wait_sms=1,threads=192", 50},
		{pairProblem(ep.BF16, 2, 2056, 32, 6, 6), []int{6, 2}, 0, 0.3,
			"sms=2,wait_sms=0,threads=64", team + "sms=2,wait_sms=0,threads=256", 20},
		{pairProblem(ep.BF16, 2, 1032, 80, 3, 40), []int{40, 17}, 0.5, 0,
			"sms=4,wait_sms=1,threads=64", team + "sms=2,wait_sms=0,threads=96", 10},
		{pairProblem(ep.BF16, 4, 4104, 64, 8, 3), []int{3, 1, 2}, 0, 0.1,
			"sms=2,wait_sms=1,threads=64", team + "sms=2,wait_sms=1,threads=160", 10},
	})
}

// TestTeamGivesUp: with own=team, a call ends if a rank comes too late. Both ranks say for which rank they waited.
func TestTeamGivesUp(t *testing.T) {
	q := fastCase{pairProblem(ep.BF16, 2, 512, 8, 2, 9), []int{9, 8}, 0, 0,
		"sms=2,wait_sms=0,threads=64", "own=team,algo=dedup,sms=2,wait_sms=0,threads=160", 1}
	e := q.prepare(t, dispatchFinal(), combineFinal())
	e.run(1, e.call(e.d, e.dc), e.experts(), e.call(e.c, e.cc))
	e.noFaults()
	e.extra = []string{"set * deadline_ns 300000000", "set 1 delay_ns 1500000000"}
	e.run(1, e.call(e.c, e.cc))
	for r, want := range []string{"rank 0 phase 4 expert -1 source 1 ", "rank 1 phase 5 expert -1 source 0 "} {
		if got := e.faultOf(r); !strings.HasPrefix(got, want) {
			t.Errorf("rank %d says %q, want %q", r, got, want)
		}
	}
}

// TestTeamLegality checks which configs with own=team are legal.
func TestTeamLegality(t *testing.T) {
	p := pairProblem(ep.BF16, 2, 7168, 256, 8, 128)
	for changes, want := range map[string]string{
		"own=team,algo=dedup,threads=672":             "",
		"own=team,algo=dedup,threads=192":             "",
		"own=team,algo=dedup,threads=160":             "threads: 160 are fewer than the 192",
		"own=team,threads=672":                        "algo: direct has no meaning with own=team",
		"own=team,algo=dedup,threads=672,in_flight=8": "in_flight: 8 has no meaning with own=team",
		"own=team,algo=dedup,sms=24,wait_sms=24":      "wait_sms:",
		"own=team,algo=dedup,sms=132,wait_sms=0":      "",
		"own=teams,algo=dedup":                        "own:",
	} {
		f := combineFinal()
		err := f.Check(onCPU(), p, overDefault(t, f, p, changes))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", changes, err, want)
		}
	}
	m := onCPU()
	m.Arch = "sm_80"
	f := combineFinal()
	if err := f.Check(m, p, overDefault(t, f, p, "own=team,algo=dedup,threads=672")); err == nil || !strings.Contains(err.Error(), "sm_90") {
		t.Errorf("on sm_80: %v", err)
	}
}
