package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// hostsLLState declares the memory of the low-latency hosts kernels. Its only counter is the
// abort word.
var hostsLLState = State{Name: "hosts-ll", Regions: regionsHostsLL, Counters: func(ep.Problem) int { return 1 }}

// dispatchHostsLL declares dispatch_ll over hosts.
func dispatchHostsLL() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "dispatch_ll_hosts",
			Op:   ep.Dispatch,
			Doc:  "One message for each distinct rank of a token. Inside a host receivers poll the data; between hosts they poll a word that is put after the data. For small batches.",
			Params: append(hostParams(),
				speedParam(kernels.Compile, "part", "message bytes one receiving or forwarding warp waits for and copies", "bytes", "512", "512", "1024"),
				routeParam("direct: a message to each rank; rail: one to another host, to the rank with the sender's place, which forwards it there"),
			),
			Check: func(m ep.Machine, p ep.Problem, c ep.Config) error {
				return cmp.Or(checkHostsLL(m, p, c), kernels.CheckWord(c, "part", "512", "1024", "2048"), checkRoute(p, c))
			},
		},
		source: HostsFolder + "dispatch_ll.cuh",
		State:  hostsLLState,
		defines: func(c ep.Config) []string {
			return []string{defineInt("EP_THREADS", c, "threads"), defineInt("EP_PART_BYTES", c, "part"), defineRoute(c)}
		},
		compare:  inOrder,
		Launches: func(_ ep.Problem, c ep.Config) []Launch { return launchesHosts("ll_hosts_dispatch", c) },
	}
}

// combineHostsLL declares combine_ll over hosts, with algo direct.
func combineHostsLL() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:   "combine_ll_hosts",
			Op:     ep.Combine,
			Doc:    "Every row returns to a place of its own. Inside a host receivers poll the rows; between hosts they poll a word that is put after each row. For small batches.",
			Params: hostParams(),
			Check:  checkHostsLL,
		},
		source:   HostsFolder + "combine_ll.cuh",
		State:    hostsLLState,
		defines:  func(c ep.Config) []string { return []string{defineInt("EP_THREADS", c, "threads")} },
		Launches: func(_ ep.Problem, c ep.Config) []Launch { return launchesHosts("ll_hosts_combine", c) },
		dispatch: func(m ep.Machine, p ep.Problem, _ ep.Config) ep.Config {
			return Fitted(dispatchHostsLL().Kernel, m, p)
		},
	}
}

// maxHeaderTopK is the largest top-k: the warp that reads a header has one lane for the
// token's number, and one for each selection.
const maxHeaderTopK = Warp - 1

// checkHostsLL refuses problems that the low-latency hosts kernels cannot run.
func checkHostsLL(m ep.Machine, p ep.Problem, c ep.Config) error {
	switch {
	case p.Dispatch != ep.BF16 && p.Dispatch != ep.FP8:
		return fmt.Errorf("dtype: %s sends bf16 and fp8, not %s; use the hosts kernels without ll", c.Kernel, p.Dispatch)
	case p.SharedExpert:
		return fmt.Errorf("shared-expert: %s does not fuse it; use the hosts kernels without ll", c.Kernel)
	case p.TopK > maxHeaderTopK:
		return fmt.Errorf("topk: %d is more than %d, the most that a header of %s holds; use the hosts kernels without ll", p.TopK, maxHeaderTopK, c.Kernel)
	case p.MaxTokens > maxFastTokens:
		return fmt.Errorf("max-tokens: %d is more than %d, the largest position that a header holds", p.MaxTokens, maxFastTokens)
	}
	return checkHosts(m, p, c)
}

// regionsHostsLL lists LhRegion of hosts/ll_layout.cuh.
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
