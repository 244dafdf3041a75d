package declare

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// polledState declares the memory of finalState, followed by slots that a combine polls. Dispatches
// of finalState can run in this memory too.
var polledState = State{Name: "final-polled", extends: finalState.Name, anyDType: true, Regions: regionsPolled, Counters: finalState.Counters}

// regionsPolled lists FinRegion of final/layout.cuh, then FIN_POLLED of
// final/combine_polled.cuh. The regions "flags" and "return" are unused and shrink to one word.
func regionsPolled(p ep.Problem) []Region {
	out := regionsFinal(p)
	for i := range out {
		switch out[i].Name {
		case "flags", "return":
			out[i].Bytes = 4
		case "started":
			out[i] = out[i].in(AreaStarted)
		}
	}
	slots := int64(max(p.Ranks, p.TopK))
	return append(out, Poisoned("polled", 2*int64(p.MaxTokens)*slots*int64(2*p.Hidden)).in(AreaReturn))
}

// combineFinalPolled declares a combine_ll_partial that can follow dispatch_final. With 4,096 tokens
// on 2 ranks such pairs are a fifth faster than pairs of two ll kernels or of two final kernels.
func combineFinalPolled() Declaration {
	return Declaration{Kernel: kernels.Kernel{
		Name:    "combine_final_polled",
		Op:      ep.Combine,
		Layouts: byExpert,
		Doc:     "combine_ll_partial after dispatch_final or dispatch_final_home: receivers poll the sums. It needs twice the slots. For large batches.",
		Params: []kernels.Param{
			partialParam(),
			smsParam("32", "64", "132"),
			threadsParam("512", "768"),
			polledReceivers("8", "0", "8", "12"),
			pdlParam("0"),
		},
		Check:   checkCombineLLPartial,
		Default: defaultCombineFinalPolled,
		Starts:  startsCombineFinalPolled,
	},
		source:   "final/combine_polled.cuh",
		State:    polledState,
		defines:  definesPartial,
		Launches: func(_ ep.Problem, c ep.Config) []Launch { return launchesOwn("combine_final_polled", c) },
		compare:  preReduced,
		dispatch: func(m ep.Machine, p ep.Problem, _ ep.Config) ep.Config { return defaultDispatchFinal(m, p) },
	}
}

// defaultCombineFinalPolled returns defaultCombineLLPartial with 8 warps that only sum. From 1,024
// tokens on this was the fastest number of such warps.
func defaultCombineFinalPolled(m ep.Machine, p ep.Problem) ep.Config {
	return ep.Config{Kernel: "combine_final_polled", Values: map[string]ep.Value{
		"partial": "f32", "sms": number(fastSMs(m, p)), "threads": "512", "receivers": "8", "pdl": "0",
	}}
}

// startsCombineFinalPolled returns a config with 768 threads, which won from 1,024 tokens on. It is
// not the default, because it spills registers on 8 ranks.
func startsCombineFinalPolled(m ep.Machine, p ep.Problem) []ep.Config {
	return []ep.Config{defaultCombineFinalPolled(m, p).With("threads", "768").With("receivers", "12")}
}
