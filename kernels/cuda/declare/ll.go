package declare

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// llState declares the memory of the low-latency kernels, whose device code is in native/kernels/ll. They are for
// decoding, where a call has few tokens. A dispatch sends each token to the ranks (GPUs) that hold its experts, and a
// combine brings the experts' outputs back. No flags say that data has arrived: receivers poll the data itself.
var llState = State{Name: "ll", anyDType: true, Regions: regionsLL, Counters: onlyAbort}

// byExpert lists the layouts in which received rows are sorted by expert.
var byExpert = []ep.Layout{ep.LayoutExpert, ep.LayoutExpert128}

// unusedLL lists the parameters of dispatch_ll that have no effect with mode=split or with count=receiver. In such configs
// the parameters must have the values in this list.
const unusedLL = "receivers=0,pause=0,early=0"

// dispatchLL declares the dispatch. It sends one message for each rank to which a token goes, even if the token has
// several experts there.
func dispatchLL() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "dispatch_ll", Op: ep.Dispatch, Layouts: byExpert,
			Doc: "One kernel without flags: each token is sent once to each distinct rank, and receivers poll the data. For small batches.",
			Params: slices.Concat([]kernels.Param{
				countParam, smsParam("16", "32", "64", "132"), threadsParam("256", "512", "1024"),
				pieceParam("send", "message bytes that a sending warp converts and stores at a time"),
				pieceParam("part", "message bytes that a receiving warp waits for and copies at a time"),
				speedParam(kernels.Launch, "receivers", "warps of each block that never send, so that early tokens are copied while later tokens are sent", "warps", "8", "0", "8"),
				speedParam(kernels.Launch, "pause", "time that a warp that never sends pauses between two polls", "ns", "0", "0", "250"),
				wordParam("early", "1: a receiving warp polls its first data before it knows the rows to which they go", "0", "1"),
				inputParam(), pdlParam("0"),
			}, splitParams()),
			Formerly: formerly("dispatch_ll_split", "mode=split,"+unusedLL, "dispatch_ll_ids", "count=receiver,"+unusedLL),
			Check:    checkFast, Starts: startsDispatchLL, Default: defaultDispatchLL, Overlapped: overlapped,
			Split: splitOf(defaultDispatchLL, unusedLL),
		},
		ties: []tie{
			{"mode=split", unusedLL}, {"count=receiver", "mode=fused," + unusedLL},
			{"receivers=0", "pause=0"}, {"early=1", "receivers=0"}, // with early=1 all warps of a block wait together until they know the rows
		},
		source: "ll/dispatch.cuh", entry: entryIDs("dispatch_ll"), shared: sharedMarks, State: llState,
		defines: func(c ep.Config) []string {
			if countsReceiver(c) {
				return definesIDs(c)
			}
			return options(append(definesPieces(c), defineInput(c), defineInt("EP_EARLY", c, "early"), defineSplit(c))...)
		},
		compare: ref.Compare{Ordered: true},
	}
}

// combineLL declares the combine. With after=final it follows dispatch_final, the dispatch for many tokens. With 4,096
// tokens on 2 ranks, dispatch_final and this combine together took a fifth less time than dispatch_ll and combine_ll, and
// a fifth less time than dispatch_final and combine_final.
func combineLL() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "combine_ll", Op: ep.Combine, Layouts: byExpert,
			Doc: "One kernel without flags: receivers poll the rows. With algo=dedup a rank sums its rows before it sends them. For small batches; after dispatch_final also for large ones.",
			Params: slices.Concat([]kernels.Param{
				design(added(wordParam("after", "which dispatch this combine follows: ll, dispatch_ll; final, dispatch_final, for which slots take twice the memory", "ll", "final"))),
				fastAlgoParam, ownParam, smsParam("16", "32", "64", "132"),
				threadsParam("256", "512", "768", "1024"), ownReceivers, pdlParam("0"),
			}, splitParams()),
			Formerly: formerlyPartial(formerly("combine_ll_split", "mode=split", "combine_ll_partial", "own=registers",
				"combine_final_polled", "own=registers,after=final")),
			Check: checkFast, Default: defaultCombineLL, Split: splitOf(defaultCombineLL, "receivers=0"),
			Starts: startsCombineLL, Overlapped: overlapped,
		},
		ties:   []tie{{"mode=split", "receivers=0"}},
		source: "ll/combine.cuh", State: llState,
		stateOf: func(c ep.Config) State {
			if afterFinal(c) {
				return polledState
			}
			return llState
		},
		defines: func(c ep.Config) []string {
			return options(defineThreads(c), defineSums(c), optionIf(afterFinal(c), "EP_AFTER_FINAL=1"), defineSplit(c))
		},
		dispatch: func(m ep.Machine, p ep.Problem, c ep.Config) ep.Config {
			if afterFinal(c) {
				return defaultDispatchFinal(m, p)
			}
			return defaultDispatchLL(m, p)
		},
	}
}

// afterFinal reports whether a config of combine_ll follows dispatch_final.
func afterFinal(c ep.Config) bool { return c.Str("after") == "final" }

// overlapped returns c with pdl=1. If a dispatch and a combine follow each other, the second kernel then starts while the
// first one still runs. On 4 H200, with 1 and 8 tokens, both kernels together then took 9 to 15 % less time. Each
// kernel alone did not become faster.
func overlapped(c ep.Config) ep.Config { return c.With("pdl", "1") }

// defaultDispatchLL returns a config close to the fastest ones on 8 H200. Up to 8 tokens, receivers poll early and copy
// small parts. With more tokens they copy larger parts. With more than 32 tokens, blocks have more warps.
func defaultDispatchLL(m ep.Machine, p ep.Problem) ep.Config {
	c := dispatchLL().plain(m, p)
	switch {
	case p.Tokens <= 8:
		return with(c, "threads=512,early=1,receivers=0")
	case p.Tokens <= 32:
		return with(c, "threads=512,part=1024")
	}
	return with(c, "threads=1024,part=1024")
}

// defaultDispatchLLIDs returns the default among the configs with count=receiver.
func defaultDispatchLLIDs(m ep.Machine, p ep.Problem) ep.Config {
	return with(defaultDispatchLL(m, p), "count=receiver,"+unusedLL)
}

// startsDispatchLL returns a config with count=receiver, if such a config can run. Every search measures it.
func startsDispatchLL(m ep.Machine, p ep.Problem) []ep.Config {
	if markBytes(p) > marksShared {
		return nil
	}
	return []ep.Config{defaultDispatchLLIDs(m, p)}
}

// defaultCombineLL returns a config that adds a token's rows in the order of its top-k. The result then has exactly the
// bits that the specification demands.
func defaultCombineLL(m ep.Machine, p ep.Problem) ep.Config {
	return combineLL().plain(m, p).With("threads", "512")
}

// startsCombineLL returns configs that every search measures.
//
// For more than 64 tokens, some of them have larger blocks. On 2 and 4 H200, blocks of 1,024 threads with own=slot took 2
// to 25 % less time for more than 64 tokens, and 4 to 14 % more time for fewer tokens. They are not the default, because
// on sm_100a they spill registers.
//
// Others have own=registers. Every rank then sums the rows of its own tokens itself. With receivers=12, some warps do
// only that, while other warps send. With receivers=0, every warp sends first and sums later, and the link is idle at the
// end.
func startsCombineLL(m ep.Machine, p ep.Problem) (out []ep.Config) {
	if p.Tokens > 64 {
		out = append(out, defaultCombineLL(m, p).With("threads", "1024"))
	}
	if p.Ranks < 2 {
		return out
	}
	own := defaultCombineLLPartial(m, p)
	if out = append(out, own); p.Tokens > 64 {
		out = append(out, variants(own, "threads=768", "threads=768,receivers=12")...)
	}
	return append(out, startsAfterFinal(m, p)...)
}

// defaultCombineLLPartial returns the default among the configs with own=registers.
func defaultCombineLLPartial(m ep.Machine, p ep.Problem) ep.Config {
	return defaultCombineLL(m, p).With("own", "registers")
}

// startsAfterFinal returns two configs that follow dispatch_final. The second one was the fastest from 1,024 tokens on: its
// blocks have 24 warps, of which 12 only sum. On 8 ranks such blocks spill registers. The first config has blocks of 16
// warps, which were the fastest ones with receivers=8.
func startsAfterFinal(m ep.Machine, p ep.Problem) []ep.Config {
	return variants(defaultCombineLLPartial(m, p), "after=final,receivers=8", "after=final,threads=768,receivers=12")
}

// marksShared is the largest shared memory that the marks of a block may take, in bytes. With count=receiver, a block has
// a mark for each expert and token: a bit that says whether the token selected the expert. The limit is chosen for sm_80,
// on which a block has the least shared memory: 163 KiB. Up to 9 KiB of it are needed for counts.
const marksShared = 128 << 10

// markBytes returns the bytes that the marks of a block take. They depend on the tokens of the call and not on the tokens
// for which the buffers have room. So a config that is legal for few tokens stays legal in larger buffers.
func markBytes(p ep.Problem) int { return (max(p.Tokens, 1) + 31) / 32 * 4 * p.Experts }

// checkMarks returns an error if the marks do not fit into shared memory.
func checkMarks(p ep.Problem, c ep.Config) error {
	if n := markBytes(p); countsReceiver(c) && n > marksShared {
		return fmt.Errorf("tokens: %d with %d experts take %d bytes of shared memory, more than %d; use at most %d, or count=sender",
			p.Tokens, p.Experts, n, marksShared, marksShared/4/p.Experts*32)
	}
	return nil
}

// sharedMarks returns the dynamic shared memory of a block, in bytes, for a dispatch that has the parameter count.
func sharedMarks(p ep.Problem, c ep.Config) int {
	if countsReceiver(c) {
		return markBytes(p)
	}
	return 0
}

// entryIDs returns the function Declaration.entry for a dispatch that has the parameter count.
func entryIDs(kernel string) func(ep.Problem, ep.Config) string {
	return func(_ ep.Problem, c ep.Config) string { return kernel + optionIf(countsReceiver(c), "_ids") }
}

// definesIDs returns the compile options for count=receiver.
func definesIDs(c ep.Config) []string {
	return append(definesPieces(c), defineInput(c), "EP_COUNT_IDS=1")
}

// definesPieces returns the compile options that say how many bytes a warp sends and copies at a time.
func definesPieces(c ep.Config) []string {
	return []string{defineThreads(c), defineInt("EP_SEND_BYTES", c, "send"), defineInt("EP_PART_BYTES", c, "part")}
}

// regionsLL lists the regions in the order of the enum LlRegion in ll/layout.cuh.
func regionsLL(p ep.Problem) []Region {
	r, t, k := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK)
	return []Region{
		Zeroed("counts", 3*r*int64(p.LocalExperts()+1)*8),
		Poisoned("headers", 3*r*t*k*8),
		Poisoned("slots", 2*r*t*int64(encodingOf(p).TokenBytes())).halves(),
		Zeroed("route", r*t*k*8),
		Zeroed("tokens", r*4),
		Zeroed("started", r*4).in(AreaStarted),
		returnSlots("return", p),
	}
}

// returnSlots declares a region in AreaReturn, memory that the combines of llState and polledState share.
func returnSlots(name string, p ep.Problem) Region {
	return Poisoned(name, 2*int64(p.MaxTokens)*int64(max(p.Ranks, p.TopK))*int64(2*p.Hidden)).in(AreaReturn)
}

// polledState declares the memory of a combine_ll that follows a dispatch_final. It begins with the memory of finalState,
// so that a dispatch_final can run in it. Then come the slots that the combine polls.
var polledState = State{Name: "final-polled", extends: finalState.Name, anyDType: true, Regions: regionsPolled, Counters: finalState.Counters}

// regionsPolled lists the regions in the order of the enum FinRegion in final/layout.cuh, and then those of
// final/polled.cuh, which begin with FIN_POLLED. This combine does not use the regions "flags" and "return", so they have
// only one word.
func regionsPolled(p ep.Problem) []Region {
	out := regionsFinal(p)
	for i := range out {
		switch out[i].Name {
		case "flags", "return":
			out[i].Bytes = 4
		case "started":
			out[i] = out[i].in(AreaStarted)
		}
	}
	return append(out, returnSlots("polled", p))
}
