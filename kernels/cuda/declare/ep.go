package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// epState declares the memory of native/kernels/ep.
var epState = State{Name: "ep", Regions: regionsEP, Counters: countersEP}

// dispatchEP declares the dispatch of ep_comm in Modular's MAX. The defaults of its parameters are MAX's constants.
func dispatchEP() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "dispatch", Op: ep.Dispatch, Layouts: byExpert,
			Doc: "Tokens are staged, copied to every destination and counted. The counts are sent last, and receivers wait for them.",
			Params: append(epParams(),
				speedParam(kernels.Launch, "count_sms", "blocks that count tokens and signal; the others send", "SMs", "8", "2", "8", "16"),
				tileParam,
				speedParam(kernels.Launch, "chunk_bytes", "bytes of a message that one warp sends; 0: all of it", "bytes", "0", "0", "1024", "4096"),
				wordParam("algo", "direct: one message for each expert; dedup: one message for each distinct rank, whose receiver copies the token to each expert", "direct", "dedup"),
				copyParam(), inFlightParam("4"),
			),
			Check: checkEP, Default: defaultDispatchEP,
		},
		source: "ep/dispatch.cuh",
		entry:  func(ep.Problem, ep.Config) string { return "ep_dispatch" },
		shared: sharedEP, State: epState, defines: definesEP,
	}
}

// combineEP declares the combine of ep_comm in Modular's MAX.
func combineEP() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "combine", Op: ep.Combine, Layouts: byExpert,
			Doc: "Each row is sent back to its own place and counted. Some blocks wait for the counts, and then let the other blocks sum the rows.",
			Params: append(epParams(),
				waitersParam, sumChunkParam,
				speedParam(kernels.Compile, "rows", "rows that a block sends at a time", "tokens", "1", "1", "2", "4"),
				rotateParam("0"),
				algoParam("direct: every row travels; dedup: one BF16 partial sum for each rank, after dispatch with algo=dedup"),
				kernels.Param{Name: "epilogue", Doc: "operation on each finished value: none, scale or bias",
					Values: []ep.Value{"none", "scale", "bias"}, Default: "none", Binding: kernels.Compile, Class: kernels.Hook},
				copyParam(), inFlightParam("8"),
			),
			Check: checkEP, Default: defaultCombineEP, CheckPair: checkPairEP,
		},
		source: "ep/combine.cuh",
		entry:  func(ep.Problem, ep.Config) string { return "ep_combine" },
		shared: sharedEP, State: epState,
		defines: func(c ep.Config) []string {
			return append(definesEP(c), defineInt("EP_ROWS", c, "rows"), Define("EP_EPILOGUE", epilogues[c.Str("epilogue")]))
		},
		dispatch: func(m ep.Machine, p ep.Problem, c ep.Config) ep.Config {
			return defaultDispatchEP(m, p).With("algo", c.Values["algo"])
		},
	}
}

func epParams() []kernels.Param {
	return []kernels.Param{
		threadsParam("256", "512", "1024"), smsParam("32", "64", "132"), modeParam(kernels.Launch),
		pdlParam("1"),
	}
}

func copyParam() kernels.Param {
	return wordParam("copy", "how senders move data: vector (16 bytes a lane) or bulk (asynchronous copies through shared memory)", "vector", "bulk")
}

func definesEP(c ep.Config) []string {
	return []string{
		defineThreads(c),
		Define("EP_ALGO", Bit(isDedup(c))),
		defineInt("EP_IN_FLIGHT", c, "in_flight"),
		Define("EP_COPY", Bit(isBulk(c))),
	}
}

var epilogues = map[string]int{"": 0, "none": 0, "scale": 1, "bias": 2}

func isBulk(c ep.Config) bool { return c.Str("copy") == "bulk" }

// sharedEP returns the shared memory of bulk copies in bytes: three messages in a dispatch, eight rows in a combine.
func sharedEP(p ep.Problem, c ep.Config) int {
	direct, dedup := messagesEP(p)
	switch {
	case !isBulk(c):
		return 0
	case c.Kernel == "combine":
		return 8 * 2 * p.Hidden
	case isDedup(c):
		return int(3 * dedup)
	}
	return int(3 * direct)
}

func defaultDispatchEP(m ep.Machine, p ep.Problem) ep.Config {
	sms := max(2, maxBlocks(m, p))
	counting := max(1, (p.Experts*Warp+MaxThreads-1)/MaxThreads) // a warp for each expert, as in MAX
	return dispatchEP().plain(m, p).With("sms", number(sms)).With("count_sms", number(min(counting, sms-1)))
}

// defaultCombineEP returns a config that loads all rows of a token at once, as MAX does. More than 8 rows would need
// too many registers, so it loads 4 at once.
func defaultCombineEP(m ep.Machine, p ep.Problem) ep.Config {
	c := combineEP().plain(m, p).With("sms", number(max(2, maxBlocks(m, p))))
	if p.TopK > 8 {
		return c.With("in_flight", "4")
	}
	return c
}

func checkEP(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := CheckProblem(m, p); err != nil {
		return err
	}
	if p.SkipA2A && isDedup(c) {
		return fmt.Errorf("algo: dedup saves nothing with skip-a2a, because nothing is sent; use direct")
	}
	return cmp.Or(
		checkNVFP4(p),
		checkThreads(c, Warp),
		checkSMs(m, p, c, 2),
		kernels.CheckRange(c, "sms", 2, maxBlocksEP),
		checkCounted(c),
		checkCopy(m, p, c))
}

// checkCounted checks the numbers of the ep and hosts kernels.
func checkCounted(c ep.Config) error {
	leastChunk := 0
	if _, combine := c.Values["rotate"]; combine {
		leastChunk = 16 // only a dispatch has the value 0, all of a message
	}
	return cmp.Or(
		checkSpans(c,
			span{"count_sms", 1, c.Int("sms") - 1},
			span{"wait_sms", 1, c.Int("sms") - 1},
			span{"tile_tokens", 1, ep.MaxTokens},
			span{"rows", 1, 8},
			span{"relay_warps", 1, maxHostThreads / Warp},
			span{"relay_chunk", 1, 1024}),
		kernels.CheckWord(c, "in_flight", "1", "2", "4", "8"),
		kernels.CheckMultiple(c, "chunk_bytes", 16, leastChunk, 1<<20, "one vector"))
}

// sharedLimit bounds the shared memory of bulk copies in bytes, from sm_90 on. 20 KiB remain for the kernels' own
// shared variables.
const sharedLimit = 227<<10 - 20<<10

func checkCopy(m ep.Machine, p ep.Problem, c ep.Config) error {
	if !isBulk(c) {
		return nil
	}
	if before90(m.Arch) {
		return fmt.Errorf("copy: bulk needs sm_90 or later and this is %s; use vector", m.Arch)
	}
	if c.Kernel == "combine" && isDedup(c) {
		return fmt.Errorf("copy: bulk cannot move the sums of algo=dedup; use vector")
	}
	if n := sharedEP(p, c); n > sharedLimit {
		return fmt.Errorf("copy: bulk stages %d bytes in shared memory, more than %d; use vector", n, sharedLimit)
	}
	return nil
}

// checkPairEP refuses algo=dedup after a direct dispatch, which does not record the rows that a rank must sum.
func checkPairEP(dispatch, combine ep.Config) error {
	if isDedup(combine) && !isDedup(dispatch) {
		return fmt.Errorf("combine.algo: dedup sums the rows of one message and needs dispatch.algo=dedup, not %s", dispatch.Str("algo"))
	}
	return nil
}

// maxBlocksEP is the largest number of blocks. EpCounter has one word for each of them.
const maxBlocksEP = 512

// regionsEP lists the regions of the enum EpRegion in ep/layout.cuh.
func regionsEP(p ep.Problem) []Region {
	r, t, k, local := int64(p.Ranks), int64(p.MaxTokens), int64(p.TopK), int64(p.LocalExperts())
	sources := int64(dtype.Sources(p))
	direct, dedup := messagesEP(p)
	row := int64(2 * p.Hidden)
	return []Region{
		Zeroed("send", t*dedup),
		Zeroed("recv", t*max(local*sources*direct, r*dedup)),
		Poisoned("counts", local*sources*8),
		Poisoned("rank_flags", 2*r*8),
		Poisoned("rows", r*t*k*4),
		Zeroed("return", t*max(k, r)*row),
		Poisoned("return_counts", local*sources*8),
		Poisoned("return_flags", r*8),
	}
}

// messagesEP returns the bytes of a message with algo=direct and with algo=dedup.
func messagesEP(p ep.Problem) (direct, dedup int64) {
	h := encodingOf(p).Message(p.TopK)
	return int64(h.Bytes), int64(h.Dedup)
}

// countersEP returns the number of words of the enum EpCounter in ep/layout.cuh.
func countersEP(p ep.Problem) int { return 40 + 7*p.Experts + maxBlocksEP }
