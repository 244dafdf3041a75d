package declare

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// problemDefines returns the -D options that describe the problem to the compiler. They leave out token counts, so
// that one binary serves all token counts of a sweep.
//
//	EP_HIDDEN         elements of a token
//	EP_TOPK           experts of a token
//	EP_EXPERTS        routed experts over all ranks
//	EP_RANKS          ranks
//	EP_NODES          hosts
//	EP_LOCAL_EXPERTS  experts of one rank
//	EP_DTYPE          EP_BF16, EP_FP8, EP_MXFP4 or EP_NVFP4
//	EP_SHARED         1 if a shared expert is fused
//	EP_SKIP_A2A       1 if tokens are replicated and nothing is sent
//	EP_PACKED         1 for layout rank:packed
//	EP_ROW_ALIGN      for layout expert:128 only: each expert begins at a multiple of this row number
//	EP_WIDE_IDS       for layouts masked and rank only: ids may have 64 bits
func problemDefines(p ep.Problem) []string {
	out := []string{
		Define("EP_HIDDEN", p.Hidden),
		Define("EP_TOPK", p.TopK),
		Define("EP_EXPERTS", p.Experts),
		Define("EP_RANKS", p.Ranks),
		Define("EP_NODES", p.Nodes),
		Define("EP_LOCAL_EXPERTS", p.LocalExperts()),
		Define("EP_DTYPE", slices.Index(ep.DTypes(), p.Dispatch)),
		Define("EP_SHARED", Bit(p.SharedExpert)),
		Define("EP_SKIP_A2A", Bit(p.SkipA2A)),
		Define("EP_PACKED", Bit(p.Layout == ep.LayoutRankPacked)),
	}
	if p.Layout == ep.LayoutExpert128 {
		out = append(out, Define("EP_ROW_ALIGN", dtype.RowPad(p)))
	}
	if k := p.Layout.Kind(); k == "masked" || k == "rank" {
		out = append(out, Define("EP_WIDE_IDS", 1))
	}
	return out
}

// NewUnit returns the unit of a source, with the macros `own` and the macros of the problem that it reads.
func NewUnit(source string, p ep.Problem, own []string) (sources.Unit, error) {
	return sources.NewUnit(source, problemDefines(p), own)
}

// Unit returns the binary that a legal config needs for a problem.
func (f Declaration) Unit(p ep.Problem, c ep.Config) (sources.Unit, error) {
	return NewUnit(f.source, p, f.defines(c))
}

// Define spells a macro definition, NAME=VALUE.
func Define(name string, value int) string { return fmt.Sprintf("%s=%d", name, value) }

// Bit returns 1 for true and 0 for false.
func Bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
