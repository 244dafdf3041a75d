package declare

import (
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// rankState declares the memory of native/kernels/rank.
var rankState = State{Name: "rank", anyDType: true, Regions: regionsRank, Counters: onlyAbort}

var byRank = []ep.Layout{ep.LayoutRank, ep.LayoutRankPacked}

// dispatchRank declares the dispatch. It sends each token once to each of its ranks. With rows=home, senders store
// elements directly in the receiver's output. Scales and heads then follow through a slot.
func dispatchRank() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "dispatch_rank", Op: ep.Dispatch, Layouts: byRank,
			Doc: "One kernel without flags: each token is sent once to each distinct rank, and receivers poll the data and copy it to the row's place.",
			Params: slices.Concat([]kernels.Param{
				design(added(wordParam("rows", "where senders store elements. slot: in a slot, from which the receiver copies them; home: in the output of the receiver; staged: as slot, but rows for the own rank go to its output, and some warps of each block only receive", "slot", "home", "staged"))),
				smsParam("8", "12", "16", "24", "32", "64", "132"),
				waitParam("copies what arrived to its rows", "0", "1", "2", "4", "8", "12", "16", "24", "32", "48", "64"),
				threadsParam("512", "768", "1024"), unitParam("message"), inputParam(), pdlParam("0"),
			}, splitParams()),
			Formerly: formerly("dispatch_rank_home", "rows=home"),
			Check:    checkFast, Default: defaultDispatchRank, Split: splitOf(slotDispatchRank, splitEarly),
			Starts: startsDispatchRank, Overlapped: overlapped,
		},
		ties:   []tie{{"mode=split", "wait_sms=0"}, {"rows=home", "mode=fused"}, {"rows=staged", "mode=fused"}},
		source: "rank/dispatch.cuh",
		entry: func(_ ep.Problem, c ep.Config) string {
			return "dispatch_rank" + optionIf(c.Str("rows") != "slot", "_"+c.Str("rows"))
		},
		State: rankState,
		defines: func(c ep.Config) []string {
			return options(defineThreads(c), defineUnit(c), defineInput(c), optionIf(storesHome(c), "EP_HOME=1"),
				optionIf(c.Str("rows") == "staged", "EP_STAGED=1"), defineSplit(c))
		},
		compare: ref.Compare{Ordered: true}, places: storesHome,
	}
}

func storesHome(c ep.Config) bool { return c.Str("rows") == "home" }

func combineRank() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "combine_rank", Op: ep.Combine, Layouts: byRank,
			Doc: "One kernel without flags: receivers poll the rows of a token and add them in the order of ranks; a rank's own rows stay where they are.",
			Params: slices.Concat([]kernels.Param{
				smsParam("16", "24", "32", "64", "132"),
				waitParam("adds what arrived", "0", "8", "12", "16", "24", "32", "48", "64", "88"),
				threadsParam("512", "768", "1024"), unitParam("row"), pdlParam("0"),
			}, splitParams()),
			Check: checkFast, Default: defaultCombineRank, Split: splitOf(defaultCombineRank, splitEarly),
			Starts: startsRank(defaultCombineRank), Overlapped: overlapped,
		},
		ties:   []tie{{"mode=split", "wait_sms=0"}},
		source: "rank/combine.cuh", State: rankState,
		defines:  func(c ep.Config) []string { return options(defineThreads(c), defineUnit(c), defineSplit(c)) },
		compare:  ref.Compare{Bits: true},
		dispatch: func(m ep.Machine, p ep.Problem, _ ep.Config) ep.Config { return defaultDispatchRank(m, p) },
	}
}

func defineUnit(c ep.Config) string { return defineInt("EP_UNIT_BYTES", c, "unit") }

// splitEarly holds values for mode=split that let the sending kernel start while the kernel before it still runs.
const splitEarly = "wait_sms=0,pdl=1"

// longTokens is the largest token count of a short call, in which all warps first send and then receive.
const longTokens = 256

// limitedSMs is about half of the SMs of a GPU. Callers that compute at the same time leave a call no more SMs.
const limitedSMs = 64

// shortTokens is the largest token count for which the division of the SMs does not matter.
const shortTokens = 16

func limited(m ep.Machine, p ep.Problem) bool {
	return p.Tokens > shortTokens && fastSMs(m, p) <= limitedSMs
}

// defaultDispatchRank returns a config with rows=home for long calls on a limited number of SMs. On 24 SMs of 2 H100,
// 4,096 tokens in BF16 then took 226 us instead of 428 us.
func defaultDispatchRank(m ep.Machine, p ep.Problem) ep.Config {
	c := slotDispatchRank(m, p)
	switch {
	case p.Tokens <= longTokens || !limited(m, p):
		return c
	case p.Dispatch == ep.BF16:
		return widest(p, homeOf(c))
	}
	return homeOf(c) // 1,024 threads that cast spill registers
}

// slotDispatchRank returns the default with rows=slot. In long calls, a third of the SMs receive, because receiving
// costs less than sending. If SMs are few, each SM sends and receives. In short BF16 calls on a limited number of SMs,
// two thirds receive.
func slotDispatchRank(m ep.Machine, p ep.Problem) ep.Config {
	c := defaultRank(dispatchRank(), m, p, "1/3")
	switch {
	case p.Tokens <= longTokens && p.Dispatch == ep.BF16 && limited(m, p):
		return with(c, "wait_sms=2/3,unit=2048")
	case p.Tokens <= longTokens || fastSMs(m, p) > fewSMs:
		return c
	}
	c = with(c, "wait_sms=0,threads=512,unit=1024")
	if p.Dispatch == ep.BF16 {
		return c.With("unit", "2048")
	}
	return c
}

func homeOf(c ep.Config) ep.Config {
	return with(c, "rows=home,wait_sms=0,threads=512,unit=1024")
}

// widest returns c with 1,024 threads, or c itself if they would spill registers.
func widest(p ep.Problem, c ep.Config) ep.Config {
	if p.Ranks > 4 {
		return c
	}
	return c.With("threads", "1024")
}

// localDispatchRank returns the default for outputs outside the symmetric heap. Long BF16 calls on a limited number of
// SMs have rows=staged, which was faster.
func localDispatchRank(m ep.Machine, p ep.Problem) ep.Config {
	c := slotDispatchRank(m, p)
	if p.Tokens <= longTokens || !limited(m, p) || p.Dispatch != ep.BF16 {
		return c
	}
	return widest(p, homeOf(c)).With("rows", "staged")
}

// startsDispatchRank returns the configs of startsRank and configs with rows=home.
func startsDispatchRank(m ep.Machine, p ep.Problem) []ep.Config {
	starts, slot := startsRank(slotDispatchRank)(m, p), slotDispatchRank(m, p)
	if storesHome(defaultDispatchRank(m, p)) {
		starts = append([]ep.Config{localDispatchRank(m, p), homeOf(slot).With("rows", "staged")}, starts...)
	}
	return append(starts, variants(homeOf(slot),
		"wait_sms=0", "wait_sms=4", "wait_sms=4,threads=768", "wait_sms=4,unit=2048", "unit=2048", "threads=1024")...)
}

// defaultCombineRank returns a config in which half of a long call's SMs receive, or two thirds on a limited number of
// SMs.
func defaultCombineRank(m ep.Machine, p ep.Problem) ep.Config {
	c := defaultRank(combineRank(), m, p, "1/2")
	if !limited(m, p) {
		return c
	}
	if fastSMs(m, p) <= fewSMs {
		c = widest(p, c)
	}
	if p.Tokens <= longTokens {
		return c
	}
	return with(c, "wait_sms=2/3")
}

// defaultRank returns a config of all SMs. In a long call, the part `wait` of the SMs only receives.
func defaultRank(f Declaration, m ep.Machine, p ep.Problem, wait string) ep.Config {
	c := f.plain(m, p)
	switch {
	case p.Tokens <= longTokens:
		return with(c, "threads=512")
	case p.Op == ep.Dispatch && p.Dispatch != ep.BF16:
		return with(c, "threads=768,wait_sms="+wait) // larger units would spill registers
	}
	return with(c, "threads=768,unit=1024,wait_sms="+wait)
}

// startsRank returns a function for Kernel.Starts.
func startsRank(own func(ep.Machine, ep.Problem) ep.Config) func(ep.Machine, ep.Problem) []ep.Config {
	return func(m ep.Machine, p ep.Problem) []ep.Config {
		if p.Tokens <= longTokens {
			return variants(own(m, p), "threads=1024")
		}
		return variants(own(m, p), "wait_sms=1/4", "wait_sms=1/2", "wait_sms=2/3", "wait_sms=0")
	}
}

// regionsRank lists the regions of the enum RankRegion in rank/layout.cuh.
func regionsRank(p ep.Problem) []Region {
	r, t := int64(p.Ranks), int64(p.MaxTokens)
	return []Region{
		Zeroed("counts", 2*r*r*8),
		Poisoned("slots", 2*r*t*rankMessage(p)).halves(),
		Zeroed("started", r*4),
		Poisoned("return", 2*t*r*int64(2*p.Hidden)),
	}
}

// rankMessage returns RANK_SLOT_BYTES: the bytes of a row's elements, scales and head, rounded up to 128.
func rankMessage(p ep.Problem) int64 {
	l := encodingOf(p)
	return (int64(l.Payload+l.Scales*l.ScaleBytes) + 4*(1+2*int64(p.TopK)) + 127) / 128 * 128
}
