package declare

import (
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// rankState declares the memory of the kernels of layout rank, native/kernels/rank.
var rankState = State{Name: "rank", anyDType: true, Regions: regionsRank, Counters: onlyAbort}

// byRank lists the layouts that these kernels serve.
var byRank = []ep.Layout{ep.LayoutRank, ep.LayoutRankPacked}

// dispatchRank declares a dispatch that sends each token once to each rank with one of its
// experts. With rows=home senders store elements in the peer's output, after all ranks have begun the call. Scales
// and heads follow through a slot, after a fence. rows=home is faster for many tokens and on few SMs.
func dispatchRank() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "dispatch_rank", Op: ep.Dispatch, Layouts: byRank,
			Doc: "One kernel without flags: each token is sent once to each distinct rank, and receivers poll the data and copy it to the row's place.",
			Params: slices.Concat([]kernels.Param{
				design(added(wordParam("rows", "where senders store elements: slot, from which the receiver copies them; home: directly in the rows of the peer's output; staged: in a slot, and rows of the own rank in its output, while other warps of a block receive", "slot", "home", "staged"))),
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

// combineRank declares a combine that returns one row for each token and rank.
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

// splitEarly holds the values of a config with split phases whose sending kernel may start while the kernel before it
// still runs.
const splitEarly = "wait_sms=0,pdl=1"

// longTokens is the largest token count of a short call, whose warps have little to send and all receive
// afterwards. Long calls have separate blocks for sending and for receiving.
const longTokens = 256

// limitedSMs is about half of the SMs of a GPU. Callers that compute at the same time leave a call
// at most this many SMs.
const limitedSMs = 64

// shortTokens is the largest token count with which any split of the SMs takes the same time.
const shortTokens = 16

// limited reports whether a call of more than shortTokens tokens has at most limitedSMs SMs.
func limited(m ep.Machine, p ep.Problem) bool {
	return p.Tokens > shortTokens && fastSMs(m, p) <= limitedSMs
}

// defaultDispatchRank returns the default of dispatch_rank. Long calls on a limited number of SMs have rows=home.
// Times of a dispatch of 4,096 tokens on 2 H100, in brackets with the best config of rows=slot:
//
//	BF16                      226 us (428 us) on 24 SMs, 187 us (263 us) on 64 SMs
//	FP8 that the caller cast  144 us (284 us) on 24 SMs, 109 us (182 us) on 64 SMs
func defaultDispatchRank(m ep.Machine, p ep.Problem) ep.Config {
	c := slotDispatchRank(m, p)
	switch {
	case p.Tokens <= longTokens || !limited(m, p):
		return c
	case p.Dispatch == ep.BF16:
		return widest(p, homeOf(c))
	}
	return homeOf(c) // 1,024 threads spill registers, because they cast
}

// slotDispatchRank returns the default among the configs with rows=slot. In long calls, a third of
// the SMs receive. Sending costs more: a sender converts a row and stores it once for each rank,
// while a receiver copies it once. If the SMs are few, each SM sends and receives, with more loads
// in flight. On 24 SMs of an H200 this took 282 us for 4,096 FP8 tokens, and 683 us if a third of
// the SMs received. In short BF16 calls on a limited number of SMs, two thirds of the SMs receive:
// on 24 SMs of 2 H100 a dispatch of 128 tokens took 15.7 us, and 22.2 us if no SM only received.
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

// homeOf returns the config with rows=home in which every block sends and receives.
func homeOf(c ep.Config) ep.Config {
	return with(c, "rows=home,wait_sms=0,threads=512,unit=1024")
}

// widest returns the config with 1,024 threads, or the config itself if 1,024 threads spill registers.
func widest(p ep.Problem, c ep.Config) ep.Config {
	if p.Ranks > 4 {
		return c
	}
	return c.With("threads", "1024")
}

// localDispatchRank returns the default for outputs outside the symmetric heap. Long BF16 calls on a limited number of
// SMs have rows=staged. On 2 H100 a dispatch of 4,096 tokens then took 326 us on 24 SMs and 249 us on 64 SMs. The best
// config of rows=slot took 437 us and 270 us.
func localDispatchRank(m ep.Machine, p ep.Problem) ep.Config {
	c := slotDispatchRank(m, p)
	if p.Tokens <= longTokens || !limited(m, p) || p.Dispatch != ep.BF16 {
		return c
	}
	return widest(p, homeOf(c)).With("rows", "staged")
}

// startsDispatchRank returns the configs of startsRank and, with rows=home, configs with blocks
// that only receive, with larger units, and with more threads. If the default has rows=home, it first returns
// the default for outputs outside the symmetric heap.
func startsDispatchRank(m ep.Machine, p ep.Problem) []ep.Config {
	starts, slot := startsRank(slotDispatchRank)(m, p), slotDispatchRank(m, p)
	if storesHome(defaultDispatchRank(m, p)) {
		starts = append([]ep.Config{localDispatchRank(m, p), homeOf(slot).With("rows", "staged")}, starts...)
	}
	return append(starts, variants(homeOf(slot),
		"wait_sms=0", "wait_sms=4", "wait_sms=4,threads=768", "wait_sms=4,unit=2048", "unit=2048", "threads=1024")...)
}

// defaultCombineRank gives half of the SMs to receiving: a receiver reads two rows, writes one, and
// empties a slot. On a limited number of SMs it gives two thirds. With few SMs it also takes larger
// blocks: on 24 SMs of 2 H200 this took 232 us for 4,096 tokens, while half of the SMs took 367 us.
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

// startsRank returns a function for Kernel.Starts: for a long call, configs with other splits of the
// SMs; for a short call, a config with more warps.
func startsRank(own func(ep.Machine, ep.Problem) ep.Config) func(ep.Machine, ep.Problem) []ep.Config {
	return func(m ep.Machine, p ep.Problem) []ep.Config {
		if p.Tokens <= longTokens {
			return variants(own(m, p), "threads=1024")
		}
		return variants(own(m, p), "wait_sms=1/4", "wait_sms=1/2", "wait_sms=2/3", "wait_sms=0")
	}
}

// regionsRank lists the regions in the order of the enum RankRegion in rank/layout.cuh.
func regionsRank(p ep.Problem) []Region {
	r, t := int64(p.Ranks), int64(p.MaxTokens)
	return []Region{
		Zeroed("counts", 2*r*r*8),
		Poisoned("slots", 2*r*t*rankMessage(p)).halves(),
		Zeroed("started", r*4),
		Poisoned("return", 2*t*r*int64(2*p.Hidden)),
	}
}

// rankMessage returns RANK_SLOT_BYTES: the bytes of a row's elements, scales and head (token number,
// experts and weights), rounded up to 128.
func rankMessage(p ep.Problem) int64 {
	l := encodingOf(p)
	return (int64(l.Payload+l.Scales*l.ScaleBytes) + 4*(1+2*int64(p.TopK)) + 127) / 128 * 128
}
