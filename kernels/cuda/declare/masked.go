package declare

import (
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// maskedState declares the memory of native/kernels/masked.
var maskedState = State{Name: "masked", anyDType: true, Regions: regionsMasked, Counters: onlyAbort}

var byMasked = []ep.Layout{ep.LayoutMasked}

// dispatchMasked declares the dispatch. It sends each token once to each of its ranks. The receiver copies the token
// to the rows of its experts there.
func dispatchMasked() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "dispatch_masked", Op: ep.Dispatch, Layouts: byMasked,
			Doc: "One kernel without flags: each token is sent once to each distinct rank, and receivers poll the data and copy it to the rows of the token's experts.",
			Params: slices.Concat([]kernels.Param{
				countParam, smsParam("16", "24", "32", "64", "132"),
				waitParam("copies what arrived to its rows", "0", "8", "16", "32", "64", "88"),
				threadsParam("512", "768", "1024"), unitParam("message"),
				added(pieceParam("send", "message bytes that a sending warp converts and stores at a time with count=receiver")),
				added(pieceParam("part", "message bytes that a receiving warp waits for and copies at a time with count=receiver")),
				inputParam(), pdlParam("0"),
			}, splitParams()),
			Formerly: formerly("dispatch_masked_split", "mode=split,wait_sms=0", "dispatch_masked_ids", "count=receiver,wait_sms=0,unit=512,input=bf16"),
			Check:    checkFast, Default: defaultDispatchMasked, Split: splitOf(defaultDispatchMasked, splitEarly),
			Starts: startsDispatchMasked, Overlapped: overlapped,
		},
		ties: []tie{
			{"mode=split", "wait_sms=0"},
			{"count=sender", "send=512,part=512"}, {"count=receiver", "mode=fused,wait_sms=0,unit=512"},
		},
		source: "masked/dispatch.cuh", entry: entryIDs("dispatch_masked"), shared: sharedMarks,
		State: maskedState,
		defines: func(c ep.Config) []string {
			if countsReceiver(c) {
				return definesIDs(c)
			}
			return options(defineThreads(c), defineUnit(c), defineInput(c), defineSplit(c))
		},
		compare: ref.Compare{Ordered: true},
	}
}

func combineMasked() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "combine_masked", Op: ep.Combine, Layouts: byMasked,
			Doc: "One kernel without flags: receivers poll the rows. With algo=dedup the weights are sent ahead, and a rank sums its rows before it sends them.",
			Params: slices.Concat([]kernels.Param{
				fastAlgoParam, ownParam, smsParam("16", "24", "32", "64", "132"),
				waitParam("adds what arrived", "0", "8", "16", "32", "64", "88"),
				threadsParam("512", "768", "1024"), unitParam("row"), ownReceivers, pdlParam("0"),
			}, splitParams()),
			Formerly: formerly("combine_masked_split", "mode=split,wait_sms=0"),
			Check:    checkFast, Default: defaultCombineMasked, Split: splitCombineMasked,
			Starts: startsCombineMasked, Overlapped: overlapped,
		},
		ties:   []tie{{"mode=split", "wait_sms=0,receivers=0"}, {"own=registers", "wait_sms=0,unit=512"}},
		source: "masked/combine.cuh", State: maskedState,
		defines: func(c ep.Config) []string {
			return options(defineThreads(c), defineUnit(c), defineSplit(c), defineSums(c))
		},
		compare:  ref.Compare{Bits: true},
		dispatch: func(m ep.Machine, p ep.Problem, _ ep.Config) ep.Config { return defaultDispatchMasked(m, p) },
	}
}

// startsDispatchMasked returns the configs of startsRank and, if it is legal, a config with count=receiver.
func startsDispatchMasked(m ep.Machine, p ep.Problem) []ep.Config {
	out := startsRank(defaultDispatchMasked)(m, p)
	if markBytes(p) > marksShared {
		return out
	}
	return append(out, defaultDispatchMaskedIDs(m, p))
}

func defaultDispatchMaskedIDs(m ep.Machine, p ep.Problem) ep.Config {
	c := with(defaultDispatchMasked(m, p), "count=receiver,wait_sms=0,unit=512")
	of := defaultDispatchLL(m, p)
	return c.With("threads", of.Values["threads"]).With("send", of.Values["send"]).With("part", of.Values["part"])
}

// defaultDispatchMasked returns a config in which half of a long call's SMs receive, because a receiver writes a token
// once for each expert.
func defaultDispatchMasked(m ep.Machine, p ep.Problem) ep.Config {
	return defaultRank(dispatchMasked(), m, p, "1/2")
}

// aheadTokens is the largest token count at which algo=dedup is slower than algo=direct, because it sends the weights
// ahead.
const aheadTokens = 4

// defaultCombineMasked returns a config with own=registers for calls of many tokens. With 4,096 FP8 tokens of
// DeepSeek-V3 on 2 H100, this took 384 us instead of 672 us.
func defaultCombineMasked(m ep.Machine, p ep.Problem) ep.Config {
	from := registersTokens
	if p.Precision == ep.Reduced {
		from = longTokens + 1
	}
	if p.Ranks < 2 || p.Tokens < from {
		return slotCombineMasked(m, p)
	}
	return registersCombineMasked(m, p)
}

// registersTokens is the token count from which the default has own=registers in full precision. Do not lower it:
// table rows of up to 128 tokens were measured against a default with own=slot.
const registersTokens = 129

// slotCombineMasked returns the default with own=slot. It sums in top-k order, as the specification demands. In
// reduced precision, each rank sends one sum for each token, which moves fewer bytes.
func slotCombineMasked(m ep.Machine, p ep.Problem) ep.Config {
	algo := ep.Value("direct")
	if p.Precision == ep.Reduced && p.Tokens > aheadTokens {
		algo = "dedup"
	}
	return defaultRank(combineMasked(), m, p, "1/2").With("algo", algo)
}

// registersCombineMasked returns the default with own=registers. Blocks of 768 threads spill registers on more than 2
// ranks.
func registersCombineMasked(m ep.Machine, p ep.Problem) ep.Config {
	c := with(slotCombineMasked(m, p), "own=registers,wait_sms=0,unit=512")
	switch {
	case p.Ranks > 2:
		return with(c, "threads=512,receivers=4")
	case p.Tokens <= longTokens:
		return with(c, "threads=768,receivers=8")
	}
	return with(c, "threads=768,receivers=12")
}

func startsCombineMasked(m ep.Machine, p ep.Problem) []ep.Config {
	out := startsRank(slotCombineMasked)(m, p)
	if p.Ranks < 2 || p.Tokens <= aheadTokens {
		return out
	}
	own := registersCombineMasked(m, p)
	return append(out, slotCombineMasked(m, p), own, with(own, "threads=512,receivers=0"))
}

// splitCombineMasked returns a config with mode=split. In reduced precision, each rank sends one sum for each token,
// which was faster.
func splitCombineMasked(m ep.Machine, p ep.Problem) ep.Config {
	algo := ep.Value("direct")
	if p.Precision == ep.Reduced {
		algo = "dedup"
	}
	return split(slotCombineMasked(m, p).With("algo", algo), splitEarly)
}

// regionsMasked lists the regions of the enum RankRegion in rank/layout.cuh, then those of MaskedRegion in
// masked/layout.cuh.
func regionsMasked(p ep.Problem) []Region {
	r, t, k := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK)
	head := 1 + 2*k
	return []Region{
		Zeroed("counts", 2*r*r*8),
		Poisoned("slots", 2*r*t*rankMessage(p)).halves(),
		Zeroed("started", r*4),
		Poisoned("return", 2*t*max(r, k)*int64(2*p.Hidden)),
		Zeroed("weights", 2*r*t*k*8),
		Poisoned("heads", 3*r*t*head*4),
		Zeroed("experts", 2*r*int64(p.LocalExperts())*8),
		Zeroed("last", 2*r*8),
		Zeroed("tokens", 3*r*8),
		Poisoned("ids", 3*r*t*k*8),
	}
}
