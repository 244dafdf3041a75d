package declare

import (
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// rankState declares the memory of native/kernels/rank.
var rankState = State{Name: "rank", anyDType: true, ordered: true, bits: true, Regions: regionsRank}

var byRank = []ep.Layout{ep.LayoutRank, ep.LayoutRankPacked}

// rankKernels declares a dispatch and a combine. The dispatch sends each token once to each of its ranks. With
// rows=home, senders store elements directly in the receiver's output. Scales and heads then follow through a slot.
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
		source: "rank/dispatch.cuh", entry: "dispatch_rank rows=home?_home rows=staged?_staged", State: rankState, places: "rows=home?always",
		macros: "EP_THREADS=threads EP_UNIT_BYTES=unit EP_RAW=input=fp8 rows=home?EP_HOME rows=staged?EP_STAGED mode=split?EP_SPLIT",
		values: dispatchValuesRank, starts: dispatchStartsRank,
		split: func(s setting) string { return split(slotValuesRank(s), splitEarly) },
	}, {
		Kernel: kernels.Kernel{
			Name: "combine_rank", Op: ep.Combine, Layouts: byRank, Check: checkFast,
			Doc: "One kernel without flags: receivers poll the rows of a token and add them in the order of ranks; a rank's own rows stay where they are.",
			Params: params("sms 16 24 32 64 *132", "wait_sms/add *0 8 12 16 24 32 48 64 88", "threads 512 768 *1024", "unit/row",
				"pdl *0 1", "mode", "recv_sms"),
		},
		ties:   []tie{{"mode=split", "wait_sms=0"}},
		source: "rank/combine.cuh", State: rankState,
		macros: "EP_THREADS=threads EP_UNIT_BYTES=unit mode=split?EP_SPLIT",
		values: combineValuesRank,
		split:  func(s setting) string { return split(combineValuesRank(s), splitEarly) },
		starts: func(s setting) []string { return dividedRank(s, combineValuesRank(s)) },
	}}
}

// splitEarly holds values for mode=split that let the sending kernel start while the kernel before it still runs.
const splitEarly = "wait_sms=0,pdl=1"

// fewSMs is the number of SMs from which on a call can use the full speed of the link.
const fewSMs = 32

// limited reports whether a call has at most about half of the SMs of a GPU: callers that compute at the same time
// leave it no more. Up to 16 tokens, the division of the SMs does not matter.
func (s setting) limited() bool { return s.Tokens > 16 && s.sms <= 64 }

const homeValuesRank = ",rows=home,wait_sms=0,threads=512,unit=1024"

// dispatchValuesRank returns values with rows=home for long calls on a limited number of SMs. On 24 SMs of 2 H100,
// 4,096 tokens in BF16 then took 226 us instead of 428 us.
func dispatchValuesRank(s setting) string {
	list := slotValuesRank(s)
	switch {
	case !s.long() || !s.limited():
		return list
	case s.Dispatch == ep.BF16:
		return list + homeValuesRank + s.widest()
	}
	return list + homeValuesRank // 1,024 threads that cast spill registers
}

// slotValuesRank returns values with rows=slot. In long calls, a third of the SMs receive, because receiving costs less
// than sending. If SMs are few, each SM sends and receives. In short BF16 calls on a limited number of SMs, two thirds
// receive.
func slotValuesRank(s setting) string {
	list := valuesRank(s, "1/3")
	switch {
	case !s.long() && s.Dispatch == ep.BF16 && s.limited():
		return list + ",wait_sms=2/3,unit=2048"
	case !s.long() || s.sms > fewSMs:
		return list
	case s.Dispatch == ep.BF16:
		return list + ",wait_sms=0,threads=512,unit=2048"
	}
	return list + ",wait_sms=0,threads=512,unit=1024"
}

// widest returns the value of 1,024 threads, or "" if they would spill registers.
func (s setting) widest() string {
	if s.Ranks > 4 {
		return ""
	}
	return ",threads=1024"
}

// dispatchStartsRank returns divisions of the SMs with rows=slot, and values with rows=home. For outputs outside the
// symmetric heap, long BF16 calls on a limited number of SMs have rows=staged, which was faster.
func dispatchStartsRank(s setting) (out []string) {
	slot := slotValuesRank(s)
	home := slot + homeValuesRank
	if s.long() && s.limited() {
		local := slot
		if s.Dispatch == ep.BF16 {
			local = home + s.widest() + ",rows=staged"
		}
		out = []string{local, home + ",rows=staged"}
	}
	return slices.Concat(out, dividedRank(s, slot),
		each(home, "wait_sms=0", "wait_sms=4", "wait_sms=4,threads=768", "wait_sms=4,unit=2048", "unit=2048", "threads=1024"))
}

// combineValuesRank returns values with which half of a long call's SMs receive, or two thirds on a limited number of
// SMs.
func combineValuesRank(s setting) string {
	list := valuesRank(s, "1/2")
	if s.limited() && s.sms <= fewSMs {
		list += s.widest()
	}
	if s.limited() && s.long() {
		list += ",wait_sms=2/3"
	}
	return list
}

// valuesRank returns values for all SMs. In a long call, the part `wait` of the SMs only receives.
func valuesRank(s setting, wait string) string {
	switch {
	case !s.long():
		return "threads=512"
	case s.Op == ep.Dispatch && s.Dispatch != ep.BF16:
		return "threads=768,wait_sms=" + wait // larger units would spill registers
	}
	return "threads=768,unit=1024,wait_sms=" + wait
}

// dividedRank returns a list with other divisions of a long call's SMs, or with more threads for a short call.
func dividedRank(s setting, list string) []string {
	if !s.long() {
		return each(list, "threads=1024")
	}
	return each(list, "wait_sms=1/4", "wait_sms=1/2", "wait_sms=2/3", "wait_sms=0")
}

// regionsRank lists the regions of the enum RankRegion in rank/layout.cuh.
func regionsRank(p ep.Problem) []Region {
	z, l := sizesOf(p), encodingOf(p)
	slot := (int64(l.Payload+l.Scales*l.ScaleBytes) + 4*(1+2*z.topK) + 127) / 128 * 128 // RANK_SLOT_BYTES: elements, scales and head
	return []Region{
		Zeroed("counts", 2*z.ranks*z.ranks*8),
		Poisoned("slots", 2*z.ranks*z.tokens*slot).halves(),
		Zeroed("started", z.ranks*4),
		Poisoned("return", 2*z.tokens*z.ranks*z.row),
	}
}
