package declare

import (
	"encoding/binary"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestLowLatencyEmulated: the low-latency pair gives the oracle's bytes for every rank count, dtype and routing.
func TestLowLatencyEmulated(t *testing.T) {
	checkEach(t, dispatchLL(), combineLL(), []fastCase{
		{pairProblem(ep.FP8, 8, 512, 64, 8, 4), []int{1, 0, 4, 3}, 0.7, 0,
			"sms=3,threads=128,early=0,receivers=2,pause=100,part=512", "sms=3,threads=128,algo=dedup", 50},
		{pairProblem(ep.BF16, 8, 264, 32, 6, 6), []int{6, 2, 5}, 0, 0.3,
			"sms=2,threads=128,early=0,receivers=0,part=1024,send=1024", "sms=2,threads=64", 10},
		{pairProblem(ep.FP8, 4, 640, 16, 4, 9), []int{9, 7, 0, 1}, 0, 0.2,
			"sms=5,threads=64,early=0,receivers=1,send=1024,part=1024", "sms=4,threads=64,algo=dedup", 20},
		{pairProblem(ep.BF16, 2, 512, 80, 3, 7), []int{7, 3}, 0.5, 0,
			"sms=1,threads=64,early=1,receivers=0", "sms=1,threads=96,algo=dedup", 20},
		{pairProblem(ep.BF16, 4, 128, 64, 22, 3), []int{3, 1, 2}, 0, 0.1,
			"sms=2,threads=128,early=1,receivers=0,part=512", "sms=2,threads=128", 10},
		{pairProblem(ep.FP8, 1, 256, 4, 2, 5), []int{5}, 0, 0,
			"sms=2,threads=64,early=0,receivers=0", "sms=2,threads=64", 5},
		{pairProblem(ep.FP8, 8, 256, 8, 1, 2), []int{0}, 0, 0,
			"sms=1,threads=64,early=1,receivers=0", "sms=1,threads=64,algo=dedup", 5},
	})
}

// TestLowLatencyCarriesSentinels sends rows whose bits are all set, as in an empty slot. The rows must arrive. After
// the calls all slots must be empty.
func TestLowLatencyCarriesSentinels(t *testing.T) {
	for _, f := range []ep.DType{ep.BF16, ep.FP8} {
		for _, of := range []struct {
			combine Declaration
			changes string
		}{{combineLL(), "algo=direct"}, {combineLL(), "algo=dedup"}, {combineLLPartial(), "own=registers"}} {
			t.Run(string(f)+of.changes, func(t *testing.T) {
				if f == ep.FP8 && of.changes == "own=registers" {
					t.Skip("combine does not see the dtype of dispatch")
				}
				t.Parallel()
				q := fastCase{p: pairProblem(f, 2, 256, 8, 2, 3), tokens: []int{3, 2},
					dispatch: "sms=2,threads=64,receivers=0", combine: "sms=2,threads=64," + of.changes, pairs: 4}
				e := q.prepare(t, dispatchLL(), of.combine)
				e.poison(PartX, PartY)
				e.run(q.pairs, e.call(e.d, e.dc), e.call(e.c, e.cc))
				e.noFaults()
				for r, g := range e.w.Ranks {
					allNaN(t, e.part(r, PartCombined)[:g.Tokens*q.p.Hidden*2])
				}
				for _, name := range []string{"slots", "return"} {
					for i, b := range e.part(1, llState.Part(name)) {
						if b != 0xff {
							t.Fatalf("%s: byte %d is %#x after the calls, not empty", name, i, b)
						}
					}
				}
			})
		}
	}
}

// allNaN fails unless every column of b is a NaN that a kernel wrote.
func allNaN(t *testing.T, b []byte) {
	t.Helper()
	for i := 0; i < len(b); i += 2 {
		if v := binary.LittleEndian.Uint16(b[i:]); v&0x7fff <= 0x7f80 {
			t.Fatalf("column %d is %#04x, not NaN", i/2, v)
		} else if v == 0xffff {
			t.Fatalf("column %d still has the empty word: the kernel never wrote it", i/2)
		}
	}
}
