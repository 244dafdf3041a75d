package declare

import (
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// rankState declares the memory of native/kernels/rank: the regions of the enum RankRegion in rank/layout.cuh.
var rankState = State{Name: "rank", anyDType: true, ordered: true, bits: true, regions: func(z sizes) []Region {
	scales := int64(z.encoding.Scales * z.encoding.ScaleBytes)
	slot := (int64(z.encoding.Payload) + scales + 4*(1+2*z.topK) + 127) / 128 * 128 // RANK_SLOT_BYTES: elements, scales and head
	return []Region{
		Zeroed("counts", 2*z.ranks*z.ranks*8),
		Poisoned("slots", 2*z.ranks*z.tokens*slot).halves(),
		Zeroed("started", z.ranks*4),
		Poisoned("return", 2*z.tokens*z.ranks*z.row),
	}
}}

var byRank = []ep.Layout{ep.LayoutRank, ep.LayoutRankPacked}

// rankKernels declares a dispatch and a combine. With rows=home, senders store elements directly in the receiver's
// output. The scales and the head of the token then go to a slot, a buffer of the receiver. The head is the token's
// number with its experts and weights.
func rankKernels() []Declaration {
	return []Declaration{{
		Kernel: kernels.Kernel{
			Name: "dispatch_rank", Op: ep.Dispatch, Layouts: byRank, Check: checkFast,
			Doc: "One kernel without flags: each token is sent once to each distinct rank, and receivers poll the data and copy it to the row's place.",
			Params: params("rows/place", "sms 8 12 16 24 32 64 *132", "wait_sms/place *0 1 2 4 8 12 16 24 32 48 64", "threads 512 768 *1024",
				"unit/message", "input", "pdl *0 1", "mode", "recv_sms"),
			Formerly: formerly("dispatch_rank_home", "rows=home"),
		},
		ties:   []tie{{"mode=split", "wait_sms=0"}, {"rows=home", "mode=fused"}, {"rows=staged", "mode=fused"}},
		source: "rank/dispatch.cuh", entry: "dispatch_rank rows=home?_home rows=staged?_staged", State: rankState, places: "rows=home",
		macros: "EP_UNIT_BYTES=unit EP_RAW=input=fp8 rows=home?EP_HOME rows=staged?EP_STAGED mode=split?EP_SPLIT",
		values: dispatchRulesRank.list, split: slotRulesRank.split(splitEarly), starts: dispatchStartsRank.over(slotRulesRank),
	}, {
		Kernel: kernels.Kernel{
			Name: "combine_rank", Op: ep.Combine, Layouts: byRank, Check: checkFast,
			Doc: "One kernel without flags: receivers poll the rows of a token and add them in the order of ranks; a rank's own rows stay where they are.",
			Params: params("sms 16 24 32 64 *132", "wait_sms/add *0 8 12 16 24 32 48 64 88", "threads 512 768 *1024", "unit/row",
				"pdl *0 1", "mode", "recv_sms"),
		},
		ties:   []tie{{"mode=split", "wait_sms=0"}},
		source: "rank/combine.cuh", State: rankState,
		macros: "EP_UNIT_BYTES=unit mode=split?EP_SPLIT",
		values: combineRulesRank.list, split: combineRulesRank.split(splitEarly), starts: dividedRank.over(combineRulesRank),
	}}
}

// splitEarly holds values for mode=split that let the sending kernel start while the kernel before it still runs.
const splitEarly = "wait_sms=0,pdl=1"

// divided returns rules that reserve a part of a long call's SMs for receiving. `wait` is this part, such as 1/3.
func divided(wait string) rules {
	return rules{
		{"", "threads=512"},
		{"long", "threads=768,unit=1024,wait_sms=" + wait},
		{"long dispatch !bf16", "unit=512"}, // larger units would spill registers
	}
}

// slotRulesRank gives values with rows=slot. In long calls, a third of the SMs receive, because receiving costs less
// than sending. On at most 32 SMs, each SM sends and receives. In short BF16 calls on a limited number of SMs, two thirds
// receive.
var slotRulesRank = divided("1/3").with(rules{
	{"!long limited bf16", "wait_sms=2/3,unit=2048"},
	{"long !sms>32", "wait_sms=0,threads=512,unit=1024"},
	{"long !sms>32 bf16", "unit=2048"},
}...)

const homeRank = "rows=home,wait_sms=0,threads=512,unit=1024"

// dispatchRulesRank gives values with rows=home to long calls on a limited number of SMs. On 24 SMs of 2 H100, 4,096
// tokens in BF16 then took 226 us instead of 428 us. Blocks of 1,024 threads spill registers in two cases: if they
// convert BF16 to FP8, or if there are 8 ranks.
var dispatchRulesRank = slotRulesRank.with(rule{"long limited", homeRank}, rule{"long limited bf16 !ranks>4", "threads=1024"})

// dividedRank gives other divisions of a long call's SMs, and more threads to a short call.
var dividedRank = rules{
	{"!long", "threads=1024"}, {"long", "wait_sms=1/4"}, {"long", "wait_sms=1/2"}, {"long", "wait_sms=2/3"}, {"long", "wait_sms=0"},
}

// dispatchStartsRank gives divisions of the SMs with rows=slot, and configs with rows=home. With rows=home, other ranks
// write a rank's outputs, which must then lie in the symmetric heap. Outputs elsewhere need a config without rows=home.
// In long calls on a limited number of SMs, the default has rows=home, so the list begins with a config for outputs
// elsewhere. In BF16 this config has rows=staged, which was faster than rows=slot.
var dispatchStartsRank = slices.Concat(rules{
	{"long limited !bf16", ""},
	{"long limited bf16 ranks>4", homeRank + ",rows=staged"},
	{"long limited bf16 !ranks>4", homeRank + ",rows=staged,threads=1024"},
	{"long limited", homeRank + ",rows=staged"},
}, dividedRank, each(homeRank, "", "wait_sms=4", "wait_sms=4,threads=768", "wait_sms=4,unit=2048", "unit=2048", "threads=1024"))

// combineRulesRank lets half of a long call's SMs receive. If their number is limited, two thirds receive.
var combineRulesRank = divided("1/2").with(rule{"limited !sms>32 !ranks>4", "threads=1024"}, rule{"long limited", "wait_sms=2/3"})
