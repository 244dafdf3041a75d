package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// epState declares the memory of native/kernels/ep: the regions of the enum EpRegion in ep/layout.cuh.
var epState = State{Name: "ep", Counters: countersEP, regions: func(z sizes) []Region {
	counts := z.local * z.sources * 8
	return []Region{
		Zeroed("send", z.tokens*z.dedup),
		Zeroed("recv", z.tokens*max(z.local*z.sources*z.direct, z.ranks*z.dedup)),
		Poisoned("counts", counts),
		Poisoned("rank_flags", 2*z.ranks*8),
		Poisoned("rows", z.ranks*z.tokens*z.topK*4),
		Zeroed("return", z.tokens*max(z.topK, z.ranks)*z.row),
		Poisoned("return_counts", counts),
		Poisoned("return_flags", z.ranks*8),
	}
}}

// epKernels declares dispatch and combine of ep_comm in Modular's MAX. The defaults of the dispatch are MAX's
// constants.
func epKernels() []Declaration {
	return []Declaration{{
		Kernel: kernels.Kernel{
			Name: "dispatch", Op: ep.Dispatch, Layouts: byExpert, Check: checkEP,
			Doc: "Tokens are staged, copied to every destination and counted. The counts are sent last, and receivers wait for them.",
			Params: params("threads 256 512 *1024", "sms 32 64 *132", "mode/counts", "pdl 0 *1", "count_sms", "tile_tokens",
				"chunk_bytes/message", "algo/dispatch", "copy", "in_flight 2 *4 8"),
		},
		source: "ep/dispatch.cuh", entry: "ep_dispatch", State: epState,
		macros: "EP_ALGO=algo=dedup EP_IN_FLIGHT=in_flight EP_COPY=copy=bulk",
		values: func(s setting) string {
			sms := max(2, s["sms"])
			counting := max(1, (s["experts"]*Warp+MaxThreads-1)/MaxThreads) // a warp for each expert, as in MAX
			return fmt.Sprintf("sms=%d,count_sms=%d", sms, min(counting, sms-1))
		},
	}, {
		Kernel: kernels.Kernel{
			Name: "combine", Op: ep.Combine, Layouts: byExpert, Check: checkEP, CheckPair: checkPairEP,
			Doc: "Each row is sent back to its own place and counted. Some blocks wait for the counts, and then let the other blocks sum the rows.",
			Params: params("threads 256 512 *1024", "sms 32 64 *132", "mode/counts", "pdl 0 *1", "wait_sms/counts", "chunk_bytes/sum",
				"rows", "rotate *0 1", "algo/combine", "epilogue", "copy", "in_flight 2 4 *8"),
		},
		source: "ep/combine.cuh", entry: "ep_combine", State: epState, follows: "algo",
		macros: "EP_ALGO=algo=dedup EP_IN_FLIGHT=in_flight EP_COPY=copy=bulk EP_ROWS=rows EP_EPILOGUE=epilogue=scale|bias",
		// MAX loads all rows of a token at once. More than 8 rows would need too many registers.
		values: rules{{"!sms>1", "sms=2"}, {"topk>8", "in_flight=4"}}.list,
	}}
}

// sharedLimit is the largest shared memory of bulk copies in bytes, on sm_90 and later. It leaves 20 KiB for the
// kernels' own shared variables.
const sharedLimit = 227<<10 - 20<<10

func checkEP(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := CheckProblem(m, p); err != nil {
		return err
	}
	dedup := holds(c, "algo=dedup")
	if p.SkipA2A && dedup {
		return fmt.Errorf("algo: dedup saves nothing with skip-a2a, because nothing is sent; use direct")
	}
	err := cmp.Or(checkNVFP4(p), checkThreads(c, Warp), checkSMs(m, p, c, 2), kernels.CheckRange(c, "sms", 2, maxBlocksEP), checkCounted(c))
	if err != nil || !holds(c, "copy=bulk") {
		return err
	}
	switch n := sharedBytes(p, c); {
	case before90(m.Arch):
		return fmt.Errorf("copy: bulk needs sm_90 or later and this is %s; use vector", m.Arch)
	case dedup && c.Kernel == "combine":
		return fmt.Errorf("copy: bulk cannot move the sums of algo=dedup; use vector")
	case n > sharedLimit:
		return fmt.Errorf("copy: bulk stages %d bytes in shared memory, more than %d; use vector", n, sharedLimit)
	}
	return nil
}

// checkCounted checks the numeric parameters of the ep and hosts kernels.
func checkCounted(c ep.Config) error {
	_, combine := c.Values["rotate"]
	return cmp.Or(
		checkSpans(c,
			span{"count_sms", 1, c.Int("sms") - 1},
			span{"wait_sms", 1, c.Int("sms") - 1},
			span{"tile_tokens", 1, ep.MaxTokens},
			span{"rows", 1, 8},
			span{"relay_warps", 1, maxHostThreads / Warp},
			span{"relay_chunk", 1, 1024}),
		kernels.CheckWord(c, "in_flight", "1", "2", "4", "8"),
		kernels.CheckMultiple(c, "chunk_bytes", 16, 16*Bit(combine), 1<<20, "one vector")) // 0 (all of a message) is only for a dispatch
}

// checkPairEP refuses a combine with algo=dedup after a dispatch with algo=direct. Only a dispatch with algo=dedup
// records the rows that a rank must sum.
func checkPairEP(dispatch, combine ep.Config) error {
	if holds(combine, "algo=dedup") && !holds(dispatch, "algo=dedup") {
		return fmt.Errorf("combine.algo: dedup sums the rows of one message and needs dispatch.algo=dedup, not %s", dispatch.Str("algo"))
	}
	return nil
}

// maxBlocksEP is the largest number of blocks. The enum EpCounter has one word for each block.
const maxBlocksEP = 512

// countersEP returns the number of words of the enum EpCounter in ep/layout.cuh.
func countersEP(p ep.Problem) int { return 40 + 7*p.Experts + maxBlocksEP }
