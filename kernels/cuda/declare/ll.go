package declare

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// llState declares the memory of native/kernels/ll, kernels for decoding, where a call has few tokens. Receivers poll
// the data itself, without flags.
var llState = State{Name: "ll", anyDType: true, Regions: regionsLL, Counters: onlyAbort}

// byExpert lists the layouts in which received rows are sorted by expert.
var byExpert = []ep.Layout{ep.LayoutExpert, ep.LayoutExpert128}

// unusedLL lists the values of parameters that have no effect with mode=split or with count=receiver.
const unusedLL = "receivers=0,pause=0,early=0"

// dispatchLL declares the dispatch. It sends one message to each rank of a token, even if the token has several
// experts there.
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
			{"receivers=0", "pause=0"}, {"early=1", "receivers=0"}, // with early=1 all warps of a block wait together
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

// combineLL declares the combine. With after=final it follows dispatch_final: this pair was the fastest for 4,096
// tokens on 2 ranks.
func combineLL() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "combine_ll", Op: ep.Combine, Layouts: byExpert,
			Doc: "One kernel without flags: receivers poll the rows. With algo=dedup a rank sums its rows before it sends them. For small batches; after dispatch_final also for large ones.",
			Params: slices.Concat([]kernels.Param{
				design(added(wordParam("after", "which dispatch the combine follows: dispatch_ll (ll) or dispatch_final (final, slots then take twice the memory)", "ll", "final"))),
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

func afterFinal(c ep.Config) bool { return c.Str("after") == "final" }

// overlapped returns c with pdl=1. In a pair, the combine then starts while the dispatch still runs. On 4 H200, with 1
// and 8 tokens, pairs took 9 to 15 % less time.
func overlapped(c ep.Config) ep.Config { return c.With("pdl", "1") }

// defaultDispatchLL returns a config close to the fastest ones on 8 H200.
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

func defaultDispatchLLIDs(m ep.Machine, p ep.Problem) ep.Config {
	return with(defaultDispatchLL(m, p), "count=receiver,"+unusedLL)
}

// startsDispatchLL returns the configs that every search measures.
func startsDispatchLL(m ep.Machine, p ep.Problem) []ep.Config {
	if markBytes(p) > marksShared {
		return nil
	}
	return []ep.Config{defaultDispatchLLIDs(m, p)}
}

// defaultCombineLL returns a config that adds a token's rows in top-k order, as the specification demands.
func defaultCombineLL(m ep.Machine, p ep.Problem) ep.Config {
	return combineLL().plain(m, p).With("threads", "512")
}

// startsCombineLL returns configs that every search measures. For more than 64 tokens, blocks of 1,024 threads took 2
// to 25 % less time on 2 and 4 H200. They are not the default, because they spill registers on sm_100a.
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

func defaultCombineLLPartial(m ep.Machine, p ep.Problem) ep.Config {
	return defaultCombineLL(m, p).With("own", "registers")
}

// startsAfterFinal returns configs that follow dispatch_final. The second config was the fastest from 1,024 tokens on,
// but it spills registers on 8 ranks.
func startsAfterFinal(m ep.Machine, p ep.Problem) []ep.Config {
	return variants(defaultCombineLLPartial(m, p), "after=final,receivers=8", "after=final,threads=768,receivers=12")
}

// marksShared is the largest shared memory that the marks of a block may take, in bytes. A mark is a bit for an expert
// and a token: whether the token selected the expert. A block of sm_80 has only 163 KiB.
const marksShared = 128 << 10

// markBytes returns the bytes that the marks of a block take. They do not depend on max-tokens, so that larger buffers
// keep a config legal.
func markBytes(p ep.Problem) int { return (max(p.Tokens, 1) + 31) / 32 * 4 * p.Experts }

func checkMarks(p ep.Problem, c ep.Config) error {
	if n := markBytes(p); countsReceiver(c) && n > marksShared {
		return fmt.Errorf("tokens: %d with %d experts take %d bytes of shared memory, more than %d; use at most %d, or count=sender",
			p.Tokens, p.Experts, n, marksShared, marksShared/4/p.Experts*32)
	}
	return nil
}

func sharedMarks(p ep.Problem, c ep.Config) int {
	if countsReceiver(c) {
		return markBytes(p)
	}
	return 0
}

func entryIDs(kernel string) func(ep.Problem, ep.Config) string {
	return func(_ ep.Problem, c ep.Config) string { return kernel + optionIf(countsReceiver(c), "_ids") }
}

func definesIDs(c ep.Config) []string {
	return append(definesPieces(c), defineInput(c), "EP_COUNT_IDS=1")
}

func definesPieces(c ep.Config) []string {
	return []string{defineThreads(c), defineInt("EP_SEND_BYTES", c, "send"), defineInt("EP_PART_BYTES", c, "part")}
}

// regionsLL lists the regions of the enum LlRegion in ll/layout.cuh.
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

func returnSlots(name string, p ep.Problem) Region {
	return Poisoned(name, 2*int64(p.MaxTokens)*int64(max(p.Ranks, p.TopK))*int64(2*p.Hidden)).in(AreaReturn)
}

// polledState declares the memory of a combine_ll that follows a dispatch_final: the memory of finalState, then the
// slots that the combine polls.
var polledState = State{Name: "final-polled", extends: finalState.Name, anyDType: true, Regions: regionsPolled, Counters: finalState.Counters}

// regionsPolled lists the regions of the enum FinRegion in final/layout.cuh and of final/polled.cuh. The combine does
// not use "flags" and "return", so these have only one word.
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
