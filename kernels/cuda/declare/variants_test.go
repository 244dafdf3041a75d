package declare

import "slices"

func dispatchEP() Declaration     { return declaredAs("dispatch") }
func combineEP() Declaration      { return declaredAs("combine") }
func dispatchLL() Declaration     { return declaredAs("dispatch_ll") }
func combineLL() Declaration      { return declaredAs("combine_ll") }
func dispatchFinal() Declaration  { return declaredAs("dispatch_final") }
func combineFinal() Declaration   { return declaredAs("combine_final") }
func dispatchRank() Declaration   { return declaredAs("dispatch_rank") }
func combineRank() Declaration    { return declaredAs("combine_rank") }
func dispatchMasked() Declaration { return declaredAs("dispatch_masked") }
func combineMasked() Declaration  { return declaredAs("combine_masked") }
func fusedSilu() Declaration      { return declaredAs("fused_silu") }

func declaredAs(kernel string) Declaration {
	f, err := Find(kernel)
	if err != nil {
		panic(err)
	}
	return f
}

// Former kernels are now configs of other kernels. Here each such config is the default of a declaration.

func dispatchLLIDs() Declaration {
	return by(dispatchLL(), dispatchRulesLL.with(rule{"", "count=receiver," + unusedLL}))
}

func dispatchMaskedIDs() Declaration {
	return by(dispatchMasked(), slices.Concat(divided("1/2"), rules{{"", "count=receiver,wait_sms=0,unit=512"}}, piecesLL))
}

func dispatchFinalHome() Declaration { return by(dispatchFinal(), rules{{"", homeFinal}}) }

func dispatchRankHome() Declaration {
	return by(dispatchRank(), slotRulesRank.with(rule{"", homeRank}))
}

func combineLLPartial() Declaration { return by(combineLL(), rules{{"", "threads=512,own=registers"}}) }

func combineFinalPolled() Declaration {
	return by(combineLL(), rules{{"", "threads=512,own=registers,after=final,receivers=8"}})
}

func combineFinalPartial() Declaration {
	return by(combineFinal(), rules{{"", registersFinal + "threads=512,wait_sms=1/2"}})
}

func combineMaskedSlots() Declaration { return by(combineMasked(), slotRulesMasked) }

// by returns f with the default values of `values`.
func by(f Declaration, values rules) Declaration {
	f.values = values.list
	return f.completed()
}
