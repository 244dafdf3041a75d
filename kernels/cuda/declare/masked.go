package declare

import (
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// maskedState declares the memory of native/kernels/masked: the regions of rankState, then those of the enum
// MaskedRegion in masked/layout.cuh.
var maskedState = State{Name: "masked", anyDType: true, ordered: true, bits: true, regions: func(z sizes) []Region {
	out := append(rankState.regions(z),
		Zeroed("weights", 2*z.ranks*z.tokens*z.topK*8),
		Poisoned("heads", 3*z.ranks*z.tokens*(1+2*z.topK)*4),
		Zeroed("experts", 2*z.ranks*z.local*8),
		Zeroed("last", 2*z.ranks*8),
		Zeroed("tokens", 3*z.ranks*8),
		Poisoned("ids", 3*z.ranks*z.tokens*z.topK*8))
	out[3].Bytes = 2 * z.tokens * max(z.ranks, z.topK) * z.row // a row for each expert of a token
	return out
}}

// maskedKernels declares a dispatch and a combine.
func maskedKernels() []Declaration {
	return []Declaration{{
		Kernel: kernels.Kernel{
			Name: "dispatch_masked", Op: ep.Dispatch, Layouts: []ep.Layout{ep.LayoutMasked}, Check: checkFast,
			Doc: "One kernel without flags: each token is sent once to each distinct rank, and receivers poll the data and copy it to the rows of the token's experts.",
			Params: params("count", "sms 16 24 32 64 *132", "wait_sms/place *0 8 16 32 64 88", "threads 512 768 *1024", "unit/message",
				"send/receiver", "part/receiver", "input", "pdl *0 1", "mode", "recv_sms"),
			Formerly: formerly("dispatch_masked_split", "mode=split,wait_sms=0", "dispatch_masked_ids", "count=receiver,wait_sms=0,unit=512,input=bf16"),
		},
		ties: []tie{
			{"mode=split", "wait_sms=0"},
			{"count=sender", "send=512,part=512"}, {"count=receiver", "mode=fused,wait_sms=0,unit=512"},
		},
		source: "masked/dispatch.cuh", entry: "dispatch_masked count=receiver?_ids", State: maskedState,
		macros: "count=sender?EP_UNIT_BYTES=unit count=receiver?EP_SEND_BYTES=send count=receiver?EP_PART_BYTES=part " +
			"EP_RAW=input=fp8 count=receiver?EP_COUNT_IDS mode=split?EP_SPLIT",
		// Half of a long call's SMs receive, because a receiver writes a token once for each expert.
		values: divided("1/2").list, split: divided("1/2").split(splitEarly),
		starts: func(s setting) []string {
			ids := rules{{"marks-fit", "count=receiver,wait_sms=0,unit=512," + piecesLL.list(s)}}
			return slices.Concat(dividedRank, ids).over(divided("1/2"))(s)
		},
	}, {
		Kernel: kernels.Kernel{
			Name: "combine_masked", Op: ep.Combine, Layouts: []ep.Layout{ep.LayoutMasked}, Check: checkFast,
			Doc: "One kernel without flags: receivers poll the rows. With algo=dedup the weights are sent ahead, and a rank sums its rows before it sends them.",
			Params: params("algo/sum", "own", "sms 16 24 32 64 *132", "wait_sms/add *0 8 16 32 64 88", "threads 512 768 *1024", "unit/row",
				"receivers/sum", "pdl *0 1", "mode", "recv_sms"),
			Formerly: formerly("combine_masked_split", "mode=split,wait_sms=0"),
		},
		ties:   []tie{{"mode=split", "wait_sms=0,receivers=0"}, {"own=registers", "wait_sms=0,unit=512"}},
		source: "masked/combine.cuh", State: maskedState,
		macros: "EP_UNIT_BYTES=unit mode=split?EP_SPLIT " + sumMacros,
		values: combineRulesMasked.list, split: divided("1/2").with(rule{"reduced", "algo=dedup"}).split(splitEarly),
		starts: func(s setting) []string {
			own := registersMasked.list(s)
			return dividedRank.with(rules{{"", ""}, {"", own}, {"", own + ",threads=512,receivers=0"}}.when("ranks>1 tokens>4")...).over(slotRulesMasked)(s)
		},
	}}
}

// slotRulesMasked gives values with own=slot. In full precision, a combine sums in top-k order, as the
// specification demands. In reduced precision, each rank sends one sum for each token, which moves fewer bytes. For
// sums, the weights must be sent first. So for up to 4 tokens, sending single rows is faster.
var slotRulesMasked = divided("1/2").with(rule{"reduced tokens>4", "algo=dedup"})

// registersMasked gives values with own=registers. Blocks of 768 threads spill registers on more than 2 ranks.
var registersMasked = rules{
	{"", "own=registers,wait_sms=0,unit=512"},
	{"ranks>2", "threads=512,receivers=4"},
	{"!ranks>2 !long", "threads=768,receivers=8"},
	{"!ranks>2 long", "threads=768,receivers=12"},
}

// combineRulesMasked gives values with own=registers to calls of many tokens. For 4,096 FP8 tokens of DeepSeek-V3 on 2
// H100, the combine then took 384 us instead of 672 us. Do not lower 128: up to there, the gains in tuned tables are
// gains over the default with own=slot.
var combineRulesMasked = slices.Concat(slotRulesMasked, registersMasked.when("ranks>1 tokens>128 !reduced"), registersMasked.when("ranks>1 long"))
