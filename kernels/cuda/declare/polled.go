package declare

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// polledState declares the memory of a combine_ll that follows a dispatch_final: the memory of finalState,
// followed by slots that the combine polls. Dispatches of finalState can run in this memory too.
var polledState = State{Name: "final-polled", extends: finalState.Name, anyDType: true, Regions: regionsPolled, Counters: finalState.Counters}

// regionsPolled lists the regions of the enum FinRegion in final/layout.cuh, then the regions in
// final/polled.cuh, which begin with FIN_POLLED. The regions "flags" and "return" are unused and shrink to one word.
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

// afterParam declares the dispatch whose rows a combine_ll returns. With 4,096 tokens on 2 ranks, pairs of
// dispatch_final and a combine_ll are a fifth faster than pairs of two ll kernels or of two final kernels.
func afterParam() kernels.Param {
	q := speedParam(kernels.Compile, "after", "which dispatch this combine follows: ll, dispatch_ll; final, dispatch_final, for which slots take twice the memory", "", "ll", "ll", "final")
	q.Before, q.Design = "ll", true
	return q
}

func afterFinal(c ep.Config) bool { return c.Str("after") == "final" }

func checkAfter(c ep.Config) error { return kernels.CheckWord(c, "after", "ll", "final") }

// startsAfterFinal returns configs that follow dispatch_final. From 1,024 tokens on, blocks of 24 warps were fastest,
// with 12 warps that only sum (receivers=12). Among configs with receivers=8, blocks of 16 warps were
// fastest. The first start has 16 warps, because blocks of 24 warps spill registers on 8 ranks.
func startsAfterFinal(m ep.Machine, p ep.Problem) []ep.Config {
	c := defaultCombineLLPartial(m, p).With("after", "final").With("receivers", "8")
	return []ep.Config{c, c.With("threads", "768").With("receivers", "12")}
}
