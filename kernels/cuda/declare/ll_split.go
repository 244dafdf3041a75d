package declare

import (
	"cmp"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// dispatchLLSplit declares dispatch_ll as two kernels, for callers that compute between them. Each
// of the two has its own grid, because few SMs should send and many should receive.
func dispatchLLSplit() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:        "dispatch_ll_split",
			Op:          ep.Dispatch,
			Layouts:     byExpert,
			Doc:         "dispatch_ll as two kernels: one ends when everything is on its way, the other receives. Between them all SMs are free.",
			SplitPhases: true,
			Params: []kernels.Param{
				smsParam("16", "32", "64", "132"),
				recvParam(),
				threadsParam("512", "1024"),
				speedParam(kernels.Compile, "send", "message bytes one sending warp converts and stores", "bytes", "512", "512", "1024"),
				speedParam(kernels.Compile, "part", "message bytes one receiving warp waits for and copies", "bytes", "512", "512", "1024"),
				pdlParam("0"),
			},
			Check: checkDispatchLLSplit,
			Default: func(m ep.Machine, p ep.Problem) ep.Config {
				c := splitOfLL(defaultDispatchLL(m, p), "dispatch_ll_split", "receivers", "pause", "early")
				return c.With("recv_sms", c.Values["sms"])
			},
		},
		source: "ll/dispatch_split.cuh",
		State:  llState,
		defines: func(c ep.Config) []string {
			return []string{defineInt("EP_THREADS", c, "threads"), defineInt("EP_SEND_BYTES", c, "send"),
				defineInt("EP_PART_BYTES", c, "part"), Define("EP_EARLY", 0)}
		},
		compare:  inOrder,
		Launches: func(_ ep.Problem, c ep.Config) []Launch { return splitLaunches("dispatch_ll", c) },
	}
}

// combineLLSplit declares combine_ll as two kernels.
func combineLLSplit() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:        "combine_ll_split",
			Op:          ep.Combine,
			Layouts:     byExpert,
			Doc:         "combine_ll as two kernels: one ends when every row is on its way, the other receives and sums. Between them all SMs are free.",
			SplitPhases: true,
			Params: []kernels.Param{
				algoParam("direct: every row travels and the sum is in top-k order; dedup: one BF16 partial sum a rank"),
				smsParam("16", "32", "64", "132"),
				recvParam(),
				threadsParam("512", "1024"),
				pdlParam("0"),
			},
			Check: func(m ep.Machine, p ep.Problem, c ep.Config) error {
				return cmp.Or(checkFast(m, p, c), checkRecv(m, p, c), checkSwitch(c, "pdl"), kernels.CheckWord(c, "algo", "direct", "dedup"))
			},
			Default: func(m ep.Machine, p ep.Problem) ep.Config {
				c := splitOfLL(defaultCombineLL(m, p), "combine_ll_split")
				return c.With("recv_sms", c.Values["sms"])
			},
		},
		source:   "ll/combine_split.cuh",
		State:    llState,
		defines:  definesFast,
		Launches: func(_ ep.Problem, c ep.Config) []Launch { return splitLaunches("combine_ll", c) },
		compare:  preReduced,
		dispatch: func(m ep.Machine, p ep.Problem, _ ep.Config) ep.Config { return defaultDispatchLL(m, p) },
	}
}

func recvParam() kernels.Param {
	q := speedParam(kernels.Launch, "recv_sms", "blocks of the receiving kernel", "SMs", "132", "32", "64", "132")
	q.Cost = kernels.SMCost
	return q
}

// splitOfLL turns a config of a fused kernel into a config of `kernel`, which lacks the parameters
// `lacks`.
func splitOfLL(c ep.Config, kernel string, lacks ...string) ep.Config {
	out := ep.Config{Kernel: kernel, Values: map[string]ep.Value{}}
	for name, v := range c.Values {
		out.Values[name] = v
	}
	for _, name := range lacks {
		delete(out.Values, name)
	}
	return out
}

// splitLaunches returns entry_send and entry_recv, each on a grid of its own. The receiver
// never starts early, because it would take SMs that the sender still needs.
func splitLaunches(entry string, c ep.Config) []Launch {
	send := launchOf(entry+"_send", c)
	recv := send
	recv.Entry, recv.Grid, recv.PDL = entry+"_recv", c.Int("recv_sms"), false
	recv.Params.SMs = recv.Grid
	return []Launch{send, recv}
}

func checkDispatchLLSplit(m ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(checkFast(m, p, c), checkRecv(m, p, c), kernels.CheckWord(c, "send", "512", "1024", "2048"),
		kernels.CheckWord(c, "part", "512", "1024", "2048"), checkSwitch(c, "pdl"))
}

// checkRecv checks that all blocks of the receiving grid can be resident at once.
func checkRecv(m ep.Machine, p ep.Problem, c ep.Config) error {
	return kernels.CheckRange(c, "recv_sms", 1, maxBlocks(m, p))
}
