package declare

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// llState declares the memory of the kernels in native/kernels/ll. They are for decoding, where a call has few tokens.
// Receivers poll the data itself, without flags. The enum LlRegion in ll/layout.cuh lists the regions.
var llState = State{Name: "ll", anyDType: true, ordered: true, regions: func(z sizes) []Region {
	return []Region{
		Zeroed("counts", 3*z.ranks*(z.local+1)*8),
		Poisoned("headers", 3*z.ranks*z.tokens*z.topK*8),
		Poisoned("slots", 2*z.ranks*z.tokens*z.token).halves(),
		Zeroed("route", z.ranks*z.tokens*z.topK*8),
		Zeroed("tokens", z.ranks*4),
		Zeroed("started", z.ranks*4).in(AreaStarted),
		polledSlots("return", z),
	}
}}

func polledSlots(name string, z sizes) Region {
	return Poisoned(name, 2*z.tokens*max(z.ranks, z.topK)*z.row).in(AreaReturn)
}

// polledState declares memory in which combine_ll can follow dispatch_final. It has the regions of finalState, and then
// the slots that combine_ll polls, the region of final/polled.cuh. The combine does not use "flags" and "return", so
// each of these two regions has only one word.
var polledState = State{
	Name: "final-polled", extends: finalState.Name, anyDType: true, Counters: finalState.Counters,
	regions: func(z sizes) []Region {
		out := finalState.regions(z)
		for i := range out {
			switch out[i].Name {
			case "flags", "return":
				out[i].Bytes = 4
			case "started":
				out[i] = out[i].in(AreaStarted)
			}
		}
		return append(out, polledSlots("polled", z))
	},
}

// byExpert lists the layouts in which received rows are sorted by expert.
var byExpert = []ep.Layout{ep.LayoutExpert, ep.LayoutExpert128}

// unusedLL sets three parameters to 0. They have no effect with mode=split or with count=receiver.
const unusedLL = "receivers=0,pause=0,early=0"

// llKernels declares a dispatch and a combine. With after=final the combine follows dispatch_final: this pair was the
// fastest for 4,096 tokens on 2 ranks.
func llKernels() []Declaration {
	return []Declaration{{
		Kernel: kernels.Kernel{
			Name: "dispatch_ll", Op: ep.Dispatch, Layouts: byExpert, Check: checkFast,
			Doc: "One kernel without flags: each token is sent once to each distinct rank, and receivers poll the data. For small batches.",
			Params: params("count", "sms 16 32 64 *132", "threads 256 512 *1024", "send", "part", "receivers", "pause", "early", "input",
				"pdl *0 1", "mode", "recv_sms"),
			Formerly: formerly("dispatch_ll_split", "mode=split,"+unusedLL, "dispatch_ll_ids", "count=receiver,"+unusedLL),
		},
		ties: []tie{
			{"mode=split", unusedLL}, {"count=receiver", "mode=fused," + unusedLL},
			{"receivers=0", "pause=0"}, {"early=1", "receivers=0"},
		},
		source: "ll/dispatch.cuh", entry: "dispatch_ll count=receiver?_ids", State: llState,
		macros: "EP_SEND_BYTES=send EP_PART_BYTES=part EP_RAW=input=fp8 count=receiver?EP_COUNT_IDS " +
			"count=sender?EP_EARLY=early mode=split?EP_SPLIT",
		values: dispatchRulesLL.list, split: dispatchRulesLL.split(unusedLL),
		starts: rules{{"marks-fit", "count=receiver," + unusedLL}}.over(dispatchRulesLL),
	}, {
		Kernel: kernels.Kernel{
			Name: "combine_ll", Op: ep.Combine, Layouts: byExpert, Check: checkFast,
			Doc: "One kernel without flags: receivers poll the rows. With algo=dedup a rank sums its rows before it sends them. For small batches; after dispatch_final also for large ones.",
			Params: params("after", "algo/sum", "own", "sms 16 32 64 *132", "threads 256 512 768 *1024", "receivers/sum", "pdl *0 1",
				"mode", "recv_sms"),
			Formerly: formerly("combine_ll_split", "mode=split", "combine_ll_partial", "own=registers",
				"combine_final_polled", "own=registers,after=final"),
		},
		ties:   []tie{{"mode=split", "receivers=0"}},
		source: "ll/combine.cuh", State: llState, states: map[string]State{"after=final": polledState},
		macros: sumMacros + " after=final?EP_AFTER_FINAL mode=split?EP_SPLIT",
		values: combineRulesLL.list, split: combineRulesLL.split("receivers=0"), starts: combineStartsLL.over(combineRulesLL),
	}}
}

// piecesLL gives the fastest measured values of `threads` and `part`. A receiving warp waits for `part` bytes of a
// message at a time.
var piecesLL = rules{{"!tokens>8", "threads=512"}, {"tokens>8", "threads=512,part=1024"}, {"tokens>32", "threads=1024"}}

// dispatchRulesLL gives values close to the fastest ones on 8 H200.
var dispatchRulesLL = piecesLL.with(rule{"!tokens>8", "early=1,receivers=0"})

// combineRulesLL gives values with which a combine adds a token's rows in top-k order, as the specification demands.
var combineRulesLL = rules{{"", "threads=512"}}

// combineStartsLL gives configs that every search measures. For more than 64 tokens on 2 and 4 H200, blocks of
// 1,024 threads took 2 to 25 % less time than blocks of 512. The default is 512, because 1,024 threads spill registers
// on sm_100a. After dispatch_final, blocks of 768 threads were the fastest from 1,024 tokens on, but spill registers on
// 8 ranks.
var combineStartsLL = rules{
	{"tokens>64", "threads=1024"},
	{"ranks>1", "own=registers"},
	{"ranks>1 tokens>64", "own=registers,threads=768"},
	{"ranks>1 tokens>64", "own=registers,threads=768,receivers=12"},
	{"ranks>1", "own=registers,after=final,receivers=8"},
	{"ranks>1", "own=registers,after=final,threads=768,receivers=12"},
}
