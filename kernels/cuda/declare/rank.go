package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// rankState declares the memory of the kernels of layout rank, native/kernels/rank. Its only
// counter is the abort word.
var rankState = State{Name: "rank", anyDType: true, Regions: regionsRank, Counters: func(ep.Problem) int { return 1 }}

// byRank lists the layouts that these kernels serve.
var byRank = []ep.Layout{ep.LayoutRank, ep.LayoutRankPacked}

// dispatchRank declares a dispatch that sends each token once to each rank with one of its
// experts.
func dispatchRank() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:    "dispatch_rank",
			Op:      ep.Dispatch,
			Layouts: byRank,
			Work:    ep.Work{Library: "epbench", Layout: "rank", Inside: []string{"cast", "counts"}},
			Doc:     "One kernel without flags: each token is sent once to each distinct rank, and receivers poll the data and copy it to the row's place.",
			Params: []kernels.Param{
				rowsParam(),
				smsParam("8", "12", "16", "24", "32", "64", "132"),
				waitParam("copies what arrived to its rows", "0", "1", "2", "4", "8", "12", "16", "24", "32", "48", "64"),
				threadsParam("512", "768", "1024"),
				unitParam("message"),
				inputParam(),
				pdlParam("0"),
				splitParam(), recvParam(),
			},
			Formerly:   formerly("dispatch_rank_home", "rows=home"),
			Check:      checkDispatchRankRows,
			Default:    defaultDispatchRank,
			Split:      func(m ep.Machine, p ep.Problem) ep.Config { return splitEarly(slotDispatchRank(m, p)) },
			Starts:     startsDispatchRank,
			Overlapped: overlappedLL,
		},
		source: "rank/dispatch.cuh",
		State:  rankState,
		defines: func(c ep.Config) []string {
			d := append(definesRank(c), defineInput(c))
			switch c.Str("rows") {
			case "home":
				d = append(d, Define("EP_HOME", 1))
			case "staged":
				d = append(d, Define("EP_STAGED", 1))
			}
			return append(d, definesSplit(c)...)
		},
		compare: inOrder,
		places:  storesHome,
		Launches: func(_ ep.Problem, c ep.Config) []Launch {
			switch c.Str("rows") {
			case "home":
				return launchesRank("dispatch_rank_home", c)
			case "staged":
				return launchesRank("dispatch_rank_staged", c)
			}
			return launchesRank("dispatch_rank", c)
		},
	}
}

// combineRank declares a combine that returns one row for each token and rank.
func combineRank() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:    "combine_rank",
			Op:      ep.Combine,
			Layouts: byRank,
			Work:    ep.Work{Library: "epbench", Layout: "rank", Sum: "plain", Inside: []string{"reduction"}},
			Doc:     "One kernel without flags: receivers poll the rows of a token and add them in the order of ranks; a rank's own rows stay where they are.",
			Params: []kernels.Param{
				smsParam("16", "24", "32", "64", "132"),
				waitParam("adds what arrived", "0", "8", "12", "16", "24", "32", "48", "64", "88"),
				threadsParam("512", "768", "1024"),
				unitParam("row"),
				pdlParam("0"),
				splitParam(), recvParam(),
			},
			Check:      checkRank,
			Default:    defaultCombineRank,
			Split:      func(m ep.Machine, p ep.Problem) ep.Config { return splitEarly(defaultCombineRank(m, p)) },
			Starts:     startsRank(defaultCombineRank),
			Overlapped: overlappedLL,
		},
		source:   "rank/combine.cuh",
		State:    rankState,
		defines:  func(c ep.Config) []string { return append(definesRank(c), definesSplit(c)...) },
		compare:  func(ep.Config) ref.Compare { return ref.Compare{Bits: true} },
		Launches: func(_ ep.Problem, c ep.Config) []Launch { return launchesRank("combine_rank", c) },
		dispatch: func(m ep.Machine, p ep.Problem, _ ep.Config) ep.Config { return defaultDispatchRank(m, p) },
	}
}

func unitParam(of string) kernels.Param {
	return speedParam(kernels.Compile, "unit", of+" bytes that a warp moves at a time", "bytes", "512", "512", "1024", "2048")
}

func definesRank(c ep.Config) []string {
	return []string{defineInt("EP_THREADS", c, "threads"), defineInt("EP_UNIT_BYTES", c, "unit")}
}

// launchesRank returns the launches of a call, fused or split.
func launchesRank(entry string, c ep.Config) []Launch {
	if isSplit(c) {
		return splitLaunches(entry, c)
	}
	l := launchOf(entry, c)
	l.Params.WaitSMs = c.Int("wait_sms")
	return []Launch{l}
}

func checkRank(m ep.Machine, p ep.Problem, c ep.Config) error {
	if rows := c.Str("rows"); isSplit(c) && (rows == "home" || rows == "staged") {
		return fmt.Errorf("mode: split has no kernels for rows=%s; use mode=fused, or rows=slot", rows)
	}
	return cmp.Or(checkSplit(m, p, c, "wait_sms"), checkFast(m, p, c),
		kernels.CheckRange(c, "wait_sms", 0, c.Int("sms")-1), // at least one block sends
		kernels.CheckWord(c, "unit", "512", "1024", "2048"), checkSwitch(c, "pdl"))
}

func checkDispatchRank(m ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(checkInput(p, c), checkRank(m, p, c))
}

// longTokens is a token count. Calls with more tokens have separate blocks for sending and for
// receiving. In shorter calls the warps of a block have little to send, and all receive afterwards.
const longTokens = 256

// limitedSMs is a number of SMs, about half of a GPU. Callers that compute at the same time leave a call
// at most this many SMs.
const limitedSMs = 64

// shortTokens is a token count. Calls with at most this many tokens take the same time with any split of
// the SMs.
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
	c, sms := defaultRank("dispatch_rank", m, p, 3).With("input", "bf16").With("rows", "slot"), fastSMs(m, p)
	switch {
	case p.Tokens <= longTokens && p.Dispatch == ep.BF16 && limited(m, p):
		return c.With("wait_sms", number(sms*2/3)).With("unit", "2048")
	case p.Tokens <= longTokens || sms > fewSMs:
		return c
	}
	unit := ep.Value("1024")
	if p.Dispatch == ep.BF16 {
		unit = "2048"
	}
	return c.With("wait_sms", "0").With("threads", "512").With("unit", unit)
}

// homeOf returns the config with rows=home in which every block sends and receives.
func homeOf(c ep.Config) ep.Config {
	return c.With("rows", "home").With("wait_sms", "0").With("threads", "512").With("unit", "1024")
}

// widest returns the config with 1,024 threads, or the config itself if 1,024 threads spill registers.
func widest(p ep.Problem, c ep.Config) ep.Config {
	if p.Ranks > 4 {
		return c
	}
	return c.With("threads", "1024")
}

// defaultCombineRank gives half of the SMs to receiving: a receiver reads two rows, writes one, and
// empties a slot. On a limited number of SMs it gives two thirds. With few SMs it also takes larger
// blocks: on 24 SMs of 2 H200 this took 232 us for 4,096 tokens, while half of the SMs took 367 us.
func defaultCombineRank(m ep.Machine, p ep.Problem) ep.Config {
	c, sms := defaultRank("combine_rank", m, p, 2), fastSMs(m, p)
	if !limited(m, p) {
		return c
	}
	if sms <= fewSMs {
		c = widest(p, c)
	}
	if p.Tokens <= longTokens {
		return c
	}
	return c.With("wait_sms", number(sms*2/3))
}

// defaultRank returns a config of all SMs. In a long call, one of every `share` SMs only receives.
func defaultRank(name string, m ep.Machine, p ep.Problem, share int) ep.Config {
	sms := fastSMs(m, p)
	v := map[string]ep.Value{"sms": number(sms), "wait_sms": "0", "threads": "512", "unit": "512", "pdl": "0"}
	if p.Tokens > longTokens {
		v["wait_sms"], v["threads"] = number(sms/share), "768"
		if p.Op != ep.Dispatch || p.Dispatch == ep.BF16 {
			v["unit"] = "1024" // a dispatch in FP8 would spill registers
		}
	}
	return fused(ep.Config{Kernel: name, Values: v})
}

// startsRank returns a function for Kernel.Starts: for a long call, configs with other splits of the
// SMs; for a short call, a config with more warps.
func startsRank(own func(ep.Machine, ep.Problem) ep.Config) func(ep.Machine, ep.Problem) []ep.Config {
	return func(m ep.Machine, p ep.Problem) []ep.Config {
		c, sms := own(m, p), fastSMs(m, p)
		if p.Tokens <= longTokens {
			return []ep.Config{c.With("threads", "1024")}
		}
		return []ep.Config{c.With("wait_sms", number(sms/4)), c.With("wait_sms", number(sms/2)), c.With("wait_sms", number(sms*2/3)), c.With("wait_sms", "0")}
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
	l := dtype.Of(p.Dispatch, p.Hidden)
	return (int64(l.Payload+l.Scales*l.ScaleBytes) + 4*(1+2*int64(p.TopK)) + 127) / 128 * 128
}
