package declare

import (
	"cmp"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// dispatchMaskedIDs declares a dispatch_masked whose receivers count the tokens of each expert. It
// uses the device code of dispatch_ll_ids. It takes only BF16 tokens; a caller that casts tokens
// uses dispatch_masked.
func dispatchMaskedIDs() Declaration {
	ids := dispatchLLIDs()
	ids.Kernel = kernels.Kernel{
		Name:    "dispatch_masked_ids",
		Op:      ep.Dispatch,
		Layouts: []ep.Layout{ep.LayoutMasked},
		Work:    ep.Work{Library: "epbench", Layout: "masked", Inside: []string{"cast", "counts", "expansion"}},
		Doc:     "dispatch_masked in which senders do not count: they send ids and data at once, and each receiving block counts the ids that arrive.",
		Params:  ids.Kernel.Params,
		Check: func(m ep.Machine, p ep.Problem, c ep.Config) error {
			return cmp.Or(checkMaskedExperts(p, c), checkDispatchLLIDs(m, p, c))
		},
		Default: func(m ep.Machine, p ep.Problem) ep.Config {
			return asKernel(defaultDispatchLLIDs(m, p), "dispatch_masked_ids")
		},
		Overlapped: overlappedLL,
	}
	ids.source, ids.State = "masked/dispatch_ids.cuh", maskedState
	launches := ids.Launches
	ids.Launches = func(p ep.Problem, c ep.Config) []Launch {
		l := launches(p, c)
		l[0].Entry = "dispatch_masked_ids"
		return l
	}
	return ids
}
