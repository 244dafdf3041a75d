package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// partialInFlight is the number of 16-byte loads of a sending lane that wait in shared memory. On
// few SMs it won among the values that combine_final has. 1,024 threads then take 128 KiB.
const partialInFlight = 8

// polledReceivers declares the number of warps that only sum. The first value is the default.
func polledReceivers(values ...ep.Value) kernels.Param {
	return speedParam(kernels.Launch, "receivers", "warps of each block that never send, so that sums are finished while other rows are sent", "warps", values[0], values[1:]...)
}

// partialParam declares the dtype in which a rank sends its sum. BF16 rounds the sum once more.
func partialParam() kernels.Param {
	q := speedParam(kernels.Compile, "partial", "dtype in which a rank sends its sum of a token's rows: f32 or bf16", "", "f32", "f32", "bf16")
	q.Class = kernels.Precision
	return q
}

func definesPartial(c ep.Config) []string {
	return []string{defineInt("EP_THREADS", c, "threads"), Define("EP_PARTIAL", Bit(c.Str("partial") == "bf16"))}
}

func checkPartial(p ep.Problem, c ep.Config) error {
	if p.Ranks < 2 {
		return fmt.Errorf("ranks: %d has no other rank to send sums to; use the ll, final or ep kernels", p.Ranks)
	}
	return kernels.CheckWord(c, "partial", "f32", "bf16")
}

func checkCombineLLPartial(m ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(checkFast(m, p, c), checkPartial(p, c), checkSwitch(c, "pdl"),
		kernels.CheckRange(c, "receivers", 0, c.Int("threads")/Warp-1)) // at least one warp sends
}

func defaultCombineFinalPartial(m ep.Machine, p ep.Problem) ep.Config {
	sms := fastSMs(m, p)
	return defaultCombineFinal(m, p).With("own", "registers").With("in_flight", number(partialInFlight)).
		With("sms", number(sms)).With("wait_sms", number(sms/2)).With("threads", "512")
}

// startsCombineFinalPartial returns configs that divide the SMs in other ways, and configs
// with larger blocks. Larger blocks are not the default, because on sm_80 they spill registers.
func startsCombineFinalPartial(m ep.Machine, p ep.Problem) []ep.Config {
	own := defaultCombineFinalPartial(m, p).With("threads", "768")
	sms := own.Int("sms")
	if sms < fewSMs {
		return []ep.Config{own, own.With("wait_sms", "0"), own.With("wait_sms", number(sms*5/8))}
	}
	half := own.With("sms", number(max(sms/2, fewSMs)))
	return []ep.Config{own, own.With("wait_sms", number(sms*5/8)), half.With("wait_sms", number(half.Int("sms")/2))}
}
