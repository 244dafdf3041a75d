package declare

import (
	"fmt"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// hostsLLState declares the memory of the hosts kernels with arrival=data. Its only counter is the
// abort word.
var hostsLLState = State{Name: "hosts-ll", Regions: regionsHostsLL, Counters: func(ep.Problem) int { return 1 }}

// maxHeaderTopK is the largest top-k: the warp that reads a header has one lane for the
// token's number, and one for each selection.
const maxHeaderTopK = Warp - 1

// checkHostsLL refuses problems that the hosts kernels cannot run with arrival=data.
func checkHostsLL(m ep.Machine, p ep.Problem, c ep.Config) error {
	switch {
	case p.Dispatch != ep.BF16 && p.Dispatch != ep.FP8:
		return fmt.Errorf("dtype: %s with arrival=data sends bf16 and fp8, not %s; use arrival=count", c.Kernel, p.Dispatch)
	case p.SharedExpert:
		return fmt.Errorf("shared-expert: %s with arrival=data does not fuse it; use arrival=count", c.Kernel)
	case p.TopK > maxHeaderTopK:
		return fmt.Errorf("topk: %d is more than %d, the most that a header of %s holds with arrival=data; use arrival=count", p.TopK, maxHeaderTopK, c.Kernel)
	case p.MaxTokens > maxFastTokens:
		return fmt.Errorf("max-tokens: %d is more than %d, the largest position that a header holds", p.MaxTokens, maxFastTokens)
	}
	return checkHosts(m, p, c)
}

// regionsHostsLL lists the regions in the order of the enum LhRegion in hosts/ll_layout.cuh.
func regionsHostsLL(p ep.Problem) []Region {
	r, t, k := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK)
	counts := int64(p.LocalExperts()+3) / 2 * 2 // one for each local expert, one of messages, one of relayed messages; rounded up to 16 bytes
	header := 8 * (k + 1)
	slot := int64(dtype.Of(p.Dispatch, p.Hidden).TokenBytes())
	message := slot + (header+15)/16*16 + (4*k+15)/16*16
	return []Region{
		Zeroed("counts", 3*r*counts*8),
		Zeroed("count_flags", 3*r*8),
		Zeroed("count_send", 3*r*counts*8),
		Poisoned("headers", 3*r*t*header),
		Poisoned("slots", 2*r*t*message),
		Zeroed("flags", 2*r*t*8),
		Zeroed("send", 2*t*message),
		Zeroed("route", r*t*header),
		Zeroed("messages", r*4),
		Zeroed("started", 2*r*8),
		Poisoned("return", 2*t*k*int64(2*p.Hidden)),
		Zeroed("return_flags", 2*t*k*8),
		Poisoned("forwarded", 2*r*t*slot),
	}
}
