package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// combineLLPartial declares a combine_ll that sends partial sums in f32 or BF16. It is a separate
// kernel, because one more parameter of combine_ll would invalidate the table rows of combine_ll.
func combineLLPartial() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:    "combine_ll_partial",
			Op:      ep.Combine,
			Layouts: byExpert,
			Doc:     "combine_ll that sends one sum for each token and rank, in f32 or BF16; a rank keeps the sums of its own tokens in registers.",
			Params: []kernels.Param{
				partialParam(),
				smsParam("16", "32", "64", "132"),
				threadsParam("256", "512", "768"),
				polledReceivers("0", "0", "4", "8", "12"),
				pdlParam("0"),
			},
			Check:      checkCombineLLPartial,
			Default:    defaultCombineLLPartial,
			Starts:     startsCombineLLPartial,
			Overlapped: overlappedLL,
		},
		source:  "ll/combine_partial.cuh",
		State:   llState,
		defines: definesPartial,
		Launches: func(_ ep.Problem, c ep.Config) []Launch {
			l := launchOf("combine_ll_partial", c)
			l.Params.Own = LLParams{Receivers: c.Int("receivers")}
			return []Launch{l}
		},
		compare:  preReduced,
		dispatch: dispatchLLBefore,
	}
}

// partialInFlight is the number of 16-byte loads of a sending lane that wait in shared memory. On
// few SMs it won among the values that combine_final has. 1,024 threads then take 128 KiB.
const partialInFlight = 8

// combineFinalPartial declares a combine_final that sends partial sums in f32 or BF16.
func combineFinalPartial() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:    "combine_final_partial",
			Op:      ep.Combine,
			Layouts: byExpert,
			Doc:     "combine_final that sends one sum for each token and rank, in f32 or BF16; a rank keeps the sums of its own tokens in registers.",
			Params: []kernels.Param{
				partialParam(),
				smsParam("8", "12", "16", "20", "24", "32", "48", "64", "132"),
				waitParam("sums what arrived", "0", "3", "4", "5", "8", "10", "12", "16", "24", "32", "48", "64"),
				threadsParam("512", "768"),
			},
			Check:   checkCombineFinalPartial,
			Default: defaultCombineFinalPartial,
			Starts:  startsCombineFinalPartial,
		},
		source: "final/combine_partial.cuh",
		State:  finalState,
		defines: func(c ep.Config) []string {
			return append(definesPartial(c), Define("EP_IN_FLIGHT", partialInFlight))
		},
		Launches: func(_ ep.Problem, c ep.Config) []Launch {
			return launchesFinal("combine_final_partial", c, c.Int("threads")*16*partialInFlight)
		},
		compare:  preReduced,
		dispatch: func(m ep.Machine, p ep.Problem, _ ep.Config) ep.Config { return defaultDispatchFinal(m, p) },
	}
}

// polledReceivers declares the number of warps that only sum. The first value is the default.
func polledReceivers(values ...ep.Value) kernels.Param {
	return speedParam(kernels.Launch, "receivers", "warps of each block that never send, so that sums are finished while other rows are sent", "warps", values[0], values[1:]...)
}

// partialParam declares the dtype in which a rank sends its sum. BF16 rounds the sum once more.
func partialParam() kernels.Param {
	q := speedParam(kernels.Compile, "partial", "dtype in which a rank sends its sum of a token's rows: f32 or bf16", "", "f32", "f32", "bf16")
	q.Class = kernels.Precision
	return q
}

func definesPartial(c ep.Config) []string {
	return []string{defineInt("EP_THREADS", c, "threads"), Define("EP_PARTIAL", Bit(c.Str("partial") == "bf16"))}
}

func checkPartial(p ep.Problem, c ep.Config) error {
	if p.Ranks < 2 {
		return fmt.Errorf("ranks: %d has no other rank to send sums to; use the ll, final or ep kernels", p.Ranks)
	}
	return kernels.CheckWord(c, "partial", "f32", "bf16")
}

func checkCombineLLPartial(m ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(checkFast(m, p, c), checkPartial(p, c), checkSwitch(c, "pdl"),
		kernels.CheckRange(c, "receivers", 0, c.Int("threads")/Warp-1)) // at least one warp sends
}

func defaultCombineLLPartial(m ep.Machine, p ep.Problem) ep.Config {
	return ep.Config{Kernel: "combine_ll_partial", Values: map[string]ep.Value{
		"partial": "f32", "sms": number(fastSMs(m, p)), "threads": "512", "receivers": "0", "pdl": "0",
	}}
}

// startsCombineLLPartial returns configs with larger blocks if there are more than 64 tokens. In
// one of them some warps never send: if every warp first sends all its sums, the link is idle while
// the warps compute the sums of their own rank.
func startsCombineLLPartial(m ep.Machine, p ep.Problem) []ep.Config {
	if p.Tokens <= 64 {
		return nil
	}
	large := defaultCombineLLPartial(m, p).With("threads", "768")
	return []ep.Config{large, large.With("receivers", "12")}
}

func checkCombineFinalPartial(m ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(checkFinalBlocks(m, p, c), checkPartial(p, c))
}

func defaultCombineFinalPartial(m ep.Machine, p ep.Problem) ep.Config {
	sms := fastSMs(m, p)
	return ep.Config{Kernel: "combine_final_partial", Values: map[string]ep.Value{
		"partial": "f32", "sms": number(sms), "wait_sms": number(sms / 2), "threads": "512",
	}}
}

// startsCombineFinalPartial returns configs that divide the SMs in other ways, and configs
// with larger blocks. Larger blocks are not the default, because on sm_80 they spill registers.
func startsCombineFinalPartial(m ep.Machine, p ep.Problem) []ep.Config {
	own := defaultCombineFinalPartial(m, p).With("threads", "768")
	sms := own.Int("sms")
	if sms < fewSMs {
		return []ep.Config{own, own.With("wait_sms", "0"), own.With("wait_sms", number(sms*5/8))}
	}
	half := own.With("sms", number(max(sms/2, fewSMs)))
	return []ep.Config{own, own.With("wait_sms", number(sms*5/8)), half.With("wait_sms", number(half.Int("sms")/2))}
}
