package declare

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// partialInFlight is the number of 16-byte loads of a sending lane that wait in shared memory. With
// few SMs it was the fastest value of in_flight. With it, 1,024 threads x 8 loads x 16 bytes take 128 KiB.
const partialInFlight = 8

// polledReceivers declares the number of warps that only sum. The first value is the default.
func polledReceivers(values ...ep.Value) kernels.Param {
	return speedParam(kernels.Launch, "receivers", "warps of each block that never send, so that sums are finished while other rows are sent", "warps", values[0], values[1:]...)
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
