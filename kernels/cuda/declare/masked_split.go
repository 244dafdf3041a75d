package declare

import (
	"cmp"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// dispatchMaskedSplit declares dispatch_masked as two kernels. They use the memory of
// dispatch_masked, so that a pack with both needs little more memory.
func dispatchMaskedSplit() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:        "dispatch_masked_split",
			Op:          ep.Dispatch,
			Layouts:     []ep.Layout{ep.LayoutMasked},
			Work:        ep.Work{Library: "epbench", Layout: "masked", Inside: []string{"cast", "counts", "expansion"}},
			Doc:         "dispatch_masked as two kernels: one ends when everything is on its way, the other receives. Between them all SMs are free.",
			SplitPhases: true,
			Params: []kernels.Param{
				smsParam("16", "24", "32", "64", "132"),
				recvParam(),
				threadsParam("512"),
				oneUnitParam("message"),
				inputParam(),
				pdlParam("0"),
			},
			Check: func(m ep.Machine, p ep.Problem, c ep.Config) error {
				return cmp.Or(checkRecv(m, p, c), checkDispatchMasked(m, p, c.With("wait_sms", "0")))
			},
			Default: func(m ep.Machine, p ep.Problem) ep.Config {
				return splitOfMasked(defaultDispatchMasked(m, p), "dispatch_masked_split").With("pdl", "1")
			},
		},
		source:   "masked/dispatch_split.cuh",
		State:    maskedState,
		defines:  definesDispatchRank,
		compare:  inOrder,
		Launches: func(_ ep.Problem, c ep.Config) []Launch { return splitLaunches("dispatch_masked", c) },
	}
}

// combineMaskedSplit declares combine_masked as two kernels.
func combineMaskedSplit() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name:        "combine_masked_split",
			Op:          ep.Combine,
			Layouts:     []ep.Layout{ep.LayoutMasked},
			Work:        ep.Work{Library: "epbench", Layout: "masked", Sum: "gated", Inside: []string{"reduction"}},
			Doc:         "combine_masked as two kernels: one ends when every row is on its way, the other receives and sums. With algo=dedup the first waits for the other ranks' weights.",
			SplitPhases: true,
			Params: []kernels.Param{
				algoParam("direct: every row travels and the sum is in top-k order; dedup: one BF16 partial sum a rank"),
				smsParam("16", "24", "32", "64", "132"),
				recvParam(),
				threadsParam("512"),
				oneUnitParam("row"),
				pdlParam("0"),
			},
			Check: func(m ep.Machine, p ep.Problem, c ep.Config) error {
				return cmp.Or(checkRecv(m, p, c), checkCombineMasked(m, p, c.With("wait_sms", "0")))
			},
			Default: defaultCombineMaskedSplit,
		},
		source:   "masked/combine_split.cuh",
		State:    maskedState,
		defines:  func(c ep.Config) []string { return append(definesRank(c), Define("EP_DIRECT", Bit(!isDedup(c)))) },
		compare:  func(c ep.Config) ref.Compare { return ref.Compare{Bits: true, Partial: partialOf(c)} },
		Launches: func(_ ep.Problem, c ep.Config) []Launch { return splitLaunches("combine_masked", c) },
		dispatch: func(m ep.Machine, p ep.Problem, _ ep.Config) ep.Config { return defaultDispatchMasked(m, p) },
	}
}

// defaultCombineMaskedSplit sends one sum for each token and rank if the problem accepts reduced
// precision. To make the sums, a rank waits for the weights of other ranks and holds its SMs until
// they arrive. Sending every row costs even more. In a CUDA graph on 2 H200, a layer of DeepSeek-V3
// with 128 FP8 tokens, whose calls have hooks, took 30 us with sums and 52 us with rows; with 32
// tokens it took 18 us and 23 us.
func defaultCombineMaskedSplit(m ep.Machine, p ep.Problem) ep.Config {
	algo := ep.Value("direct")
	if p.Precision == ep.Reduced {
		algo = "dedup"
	}
	return splitOfMasked(defaultCombineMasked(m, p).With("algo", algo), "combine_masked_split").With("pdl", "1")
}

// splitOfMasked turns a config of a fused kernel into a config of the split kernel, whose sending
// and receiving launches have grids of their own.
func splitOfMasked(c ep.Config, kernel string) ep.Config {
	out := splitOfLL(c, kernel, "wait_sms")
	return out.With("recv_sms", out.Values["sms"])
}

// oneUnitParam declares unitParam with only one value to search. It is for kernels that share
// device code with a kernel of another layout: the search of that kernel covers all values.
// Starts adds configs with other values.
func oneUnitParam(of string) kernels.Param {
	q := unitParam(of)
	q.Values = []ep.Value{"512"}
	return q
}
