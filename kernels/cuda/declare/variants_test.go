package declare

import "github.com/epbench/epbench/tune/ep"

// Former kernels are now configs of other kernels. Here each such config is the default of a declaration.

func dispatchLLIDs() Declaration     { return by(dispatchLL(), defaultDispatchLLIDs) }
func dispatchMaskedIDs() Declaration { return by(dispatchMasked(), defaultDispatchMaskedIDs) }
func combineLLPartial() Declaration  { return by(combineLL(), defaultCombineLLPartial) }
func dispatchFinalHome() Declaration { return by(dispatchFinal(), defaultDispatchFinalHome) }

func dispatchRankHome() Declaration {
	return by(dispatchRank(), func(m ep.Machine, p ep.Problem) ep.Config { return homeOf(slotDispatchRank(m, p)) })
}

func combineFinalPolled() Declaration {
	return by(combineLL(), func(m ep.Machine, p ep.Problem) ep.Config { return startsAfterFinal(m, p)[0] })
}

func combineFinalPartial() Declaration { return by(combineFinal(), defaultCombineFinalPartial) }

func combineMaskedSlots() Declaration { return by(combineMasked(), slotCombineMasked) }

// by returns f with the default config that `own` gives.
func by(f Declaration, own func(ep.Machine, ep.Problem) ep.Config) Declaration {
	f.Kernel.Default = own
	return f
}
