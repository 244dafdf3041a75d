package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// llState declares the memory of the low-latency kernels, native/kernels/ll. Its only counter
// is the abort word.
var llState = State{Name: "ll", anyDType: true, Regions: regionsLL, Counters: func(ep.Problem) int { return 1 }}

// dispatchLL declares the dispatch for decoding: one message for each distinct rank of a
// token, and receivers that poll the data itself.
func dispatchLL() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:    "dispatch_ll",
			Op:      ep.Dispatch,
			Layouts: byExpert,
			Doc:     "One kernel without flags: each token is sent once to each distinct rank, and receivers poll the data. For small batches.",
			Params: []kernels.Param{
				countParam(),
				smsParam("16", "32", "64", "132"),
				threadsParam("256", "512", "1024"),
				speedParam(kernels.Compile, "send", "message bytes that a sending warp converts and stores at a time", "bytes", "512", "512", "1024"),
				speedParam(kernels.Compile, "part", "message bytes that a receiving warp waits for and copies at a time", "bytes", "512", "512", "1024"),
				speedParam(kernels.Launch, "receivers", "warps of each block that never send, so that early tokens are copied while later tokens are sent", "warps", "8", "0", "8"),
				speedParam(kernels.Launch, "pause", "time that a warp that never sends pauses between two polls", "ns", "0", "0", "250"),
				speedParam(kernels.Compile, "early", "1: a receiving warp polls its first data before it knows the rows to which they go", "", "0", "0", "1"),
				inputParam(),
				pdlParam("0"),
				splitParam(), recvParam(),
			},
			Formerly: formerly("dispatch_ll_split", kernels.ModeParam+"=split,receivers=0,pause=0,early=0", "dispatch_ll_ids", "count=receiver,receivers=0,pause=0,early=0"),
			Check:    checkDispatchLL,
			Starts:   startsDispatchLL,
			Default:  func(m ep.Machine, p ep.Problem) ep.Config { return fused(defaultDispatchLL(m, p)) },
			Split: func(m ep.Machine, p ep.Problem) ep.Config {
				return split(defaultDispatchLL(m, p), "receivers", "pause", "early")
			},
			Overlapped: overlappedLL,
		},
		source: "ll/dispatch.cuh",
		State:  llState,
		defines: func(c ep.Config) []string {
			out := append(definesUnits(c), defineInput(c))
			if countsReceiver(c) {
				return append(out, Define("EP_COUNT_IDS", 1))
			}
			return append(append(out, defineInt("EP_EARLY", c, "early")), definesSplit(c)...)
		},
		compare: inOrder,
		Launches: func(p ep.Problem, c ep.Config) []Launch {
			if countsReceiver(c) {
				return launchesIDs("dispatch_ll_ids", p, c)
			}
			if isSplit(c) {
				return splitLaunches("dispatch_ll", c)
			}
			l := launchOf("dispatch_ll", c)
			l.Params.Own = LLParams{Receivers: c.Int("receivers"), PauseNs: c.Int("pause")}
			return []Launch{l}
		},
	}
}

// combineLL declares the combine for decoding. Receivers poll data as in dispatch_ll.
func combineLL() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:    "combine_ll",
			Op:      ep.Combine,
			Layouts: byExpert,
			Doc:     "One kernel without flags: receivers poll the rows. With algo=dedup a rank sums its rows before it sends them. For small batches; after dispatch_final also for large ones.",
			Params: []kernels.Param{
				afterParam(),
				algoParam("direct: every row travels and the sum is in top-k order; dedup: one BF16 partial sum a rank"),
				ownParam(),
				smsParam("16", "32", "64", "132"),
				threadsParam("256", "512", "768", "1024"),
				ownReceivers(),
				pdlParam("0"),
				splitParam(), recvParam(),
			},
			Formerly: formerlyPartial(formerly("combine_ll_split", kernels.ModeParam+"=split", "combine_ll_partial", "own=registers",
				"combine_final_polled", "own=registers,after=final")),
			Check:      checkCombineLL,
			Default:    defaultCombineLL,
			Split:      func(m ep.Machine, p ep.Problem) ep.Config { return split(defaultCombineLL(m, p)) },
			Starts:     startsCombineLL,
			Overlapped: overlappedLL,
		},
		source: "ll/combine.cuh",
		State:  llState,
		stateOf: func(c ep.Config) State {
			if afterFinal(c) {
				return polledState
			}
			return llState
		},
		defines: func(c ep.Config) []string {
			out := definesFast(c)
			if ownRegisters(c) {
				out = definesOwn(c)
			}
			if afterFinal(c) {
				out = append(out, Define("EP_AFTER_FINAL", 1))
			}
			return append(out, definesSplit(c)...)
		},
		Launches: func(_ ep.Problem, c ep.Config) []Launch {
			if ownRegisters(c) {
				return launchesOwn("combine_ll", c)
			}
			if isSplit(c) {
				return splitLaunches("combine_ll", c)
			}
			return []Launch{launchOf("combine_ll", c)}
		},
		compare:  preReduced,
		dispatch: dispatchLLBefore,
	}
}

func checkDispatchLL(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := cmp.Or(checkCount(p, c, "receivers=0", "pause=0", "early=0"), checkFast(m, p, c), checkSplit(m, p, c, "receivers", "pause", "early"),
		kernels.CheckRange(c, "receivers", 0, c.Int("threads")/Warp-1), // at least one warp sends
		kernels.CheckRange(c, "pause", 0, 100_000)); err != nil {
		return err
	}
	if c.Int("receivers") == 0 && c.Int("pause") > 0 {
		return fmt.Errorf("pause: %s needs warps that never send, and receivers=0 has none; use 0", c.Str("pause"))
	}
	if c.Int("early") == 1 && c.Int("receivers") > 0 {
		return fmt.Errorf("receivers: %s, but with early=1 all warps wait for the offsets together; use 0", c.Str("receivers"))
	}
	return cmp.Or(kernels.CheckWord(c, "send", "512", "1024", "2048"), kernels.CheckWord(c, "part", "512", "1024", "2048"),
		checkInput(p, c), checkSwitch(c, "early"), checkSwitch(c, "pdl"))
}

func checkCombineLL(m ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(checkFast(m, p, c), checkSplit(m, p, c), checkSwitch(c, "pdl"), kernels.CheckWord(c, "algo", "direct", "dedup"), checkAfter(c), checkOwn(p, c))
}

// dispatchLLBefore returns the dispatch that runs before a combine_ll.
func dispatchLLBefore(m ep.Machine, p ep.Problem, c ep.Config) ep.Config {
	if afterFinal(c) {
		return defaultDispatchFinal(m, p)
	}
	return fused(defaultDispatchLL(m, p))
}

// overlappedLL returns the config with pdl=1: in a pair it starts while the other kernel still
// runs. On 4 H200 pairs of 1 and 8 tokens then took 9 to 15 % less time, although dispatch alone
// and combine alone did not gain.
func overlappedLL(c ep.Config) ep.Config { return c.With("pdl", "1") }

// defaultDispatchLL returns a config close to the winners on 8 H200, without mode and recv_sms. It uses all SMs. Up to 8
// tokens it has small parts and early receivers, above 8 larger parts, and above 32 more warps.
func defaultDispatchLL(m ep.Machine, p ep.Problem) ep.Config {
	v := map[string]ep.Value{
		"count": "sender", "sms": number(fastSMs(m, p)), "threads": "512", "send": "512", "part": "512",
		"receivers": "8", "pause": "0", "early": "0", "input": "bf16", "pdl": "0",
	}
	if p.Tokens <= 8 {
		v["early"], v["receivers"] = "1", "0"
	} else {
		v["part"] = "1024"
	}
	if p.Tokens > 32 {
		v["threads"] = "1024"
	}
	return ep.Config{Kernel: "dispatch_ll", Values: v}
}

// defaultCombineLL sums in top-k order, which gives the bits of the specification.
func defaultCombineLL(m ep.Machine, p ep.Problem) ep.Config {
	return fused(ep.Config{Kernel: "combine_ll", Values: map[string]ep.Value{
		"after": "ll", "algo": "direct", "own": "slot", "sms": number(fastSMs(m, p)), "threads": "512", "receivers": "0", "pdl": "0",
	}})
}

// startsCombineLL returns a config with own=registers, and configs with larger blocks for more than 64
// tokens. On 2 and 4 H200, blocks of 1,024 threads with own=slot took 2 to 25 % less time above 64 tokens,
// and 4 to 14 % more with fewer tokens. Such blocks are not the default, because on sm_100a they spill
// registers. With own=registers some warps may be reserved for the sums of this rank's own tokens. Without
// such warps every warp first sends all its sums, and the link is then idle while the warps compute these.
func startsCombineLL(m ep.Machine, p ep.Problem) (out []ep.Config) {
	if p.Tokens > 64 {
		out = append(out, defaultCombineLL(m, p).With("threads", "1024"))
	}
	if p.Ranks < 2 {
		return out
	}
	own := defaultCombineLLPartial(m, p)
	if out = append(out, own); p.Tokens > 64 {
		large := own.With("threads", "768")
		out = append(out, large, large.With("receivers", "12"))
	}
	return append(out, startsAfterFinal(m, p)...)
}

// defaultCombineLLPartial returns the default among the configs with own=registers.
func defaultCombineLLPartial(m ep.Machine, p ep.Problem) ep.Config {
	return defaultCombineLL(m, p).With("own", "registers")
}

// startsDispatchLL returns the config with count=receiver if it is legal.
func startsDispatchLL(m ep.Machine, p ep.Problem) []ep.Config {
	if markBytes(p) > marksShared {
		return nil
	}
	return []ep.Config{defaultDispatchLLIDs(m, p)}
}

// regionsLL lists the regions in the order of the enum LlRegion in ll/layout.cuh.
func regionsLL(p ep.Problem) []Region {
	r, t, k := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK)
	l := dtype.Of(p.Dispatch, p.Hidden)
	return []Region{
		Zeroed("counts", 3*r*int64(p.LocalExperts()+1)*8),
		Poisoned("headers", 3*r*t*k*8),
		Poisoned("slots", 2*r*t*int64(l.TokenBytes())).halves(),
		Zeroed("route", r*t*k*8),
		Zeroed("tokens", r*4),
		Zeroed("started", r*4).in(AreaStarted),
		Poisoned("return", 2*t*max(r, k)*int64(2*p.Hidden)).in(AreaReturn),
	}
}
