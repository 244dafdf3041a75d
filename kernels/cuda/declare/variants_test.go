package declare

import "github.com/epbench/epbench/tune/ep"

// Each of these functions returns the declaration of a kernel with another default config: the config
// that replaced a former kernel of this name.
func dispatchLLIDs() Declaration     { return by(dispatchLL(), defaultDispatchLLIDs) }
func dispatchMaskedIDs() Declaration { return by(dispatchMasked(), defaultDispatchMaskedIDs) }
func combineLLPartial() Declaration  { return by(combineLL(), defaultCombineLLPartial) }
func dispatchFinalHome() Declaration { return by(dispatchFinal(), defaultDispatchFinalHome) }
func dispatchRankHome() Declaration  { return by(dispatchRank(), defaultDispatchRankHome) }
func combineFinalPolled() Declaration {
	return by(combineLL(), func(m ep.Machine, p ep.Problem) ep.Config { return startsAfterFinal(m, p)[0] })
}
func combineFinalPartial() Declaration {
	return by(combineFinal(), defaultCombineFinalPartial)
}

// combineMaskedSlots declares combine_masked with own=slot as the default at every token count.
func combineMaskedSlots() Declaration { return by(combineMasked(), slotCombineMasked) }

func by(f Declaration, own func(ep.Machine, ep.Problem) ep.Config) Declaration {
	f.Kernel.Default = own
	return f
}
