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
func problemDefines(p ep.Problem) []string {
	out := []string{
		Define("EP_HIDDEN", p.Hidden),   // elements of a token
		Define("EP_TOPK", p.TopK),       // experts of a token
		Define("EP_EXPERTS", p.Experts), // routed experts over all ranks
		Define("EP_RANKS", p.Ranks),
		Define("EP_NODES", p.Nodes), // hosts
		Define("EP_LOCAL_EXPERTS", p.LocalExperts()),
		Define("EP_DTYPE", slices.Index(ep.DTypes(), p.Dispatch)), // EP_BF16, EP_FP8, EP_MXFP4 or EP_NVFP4
		Define("EP_SHARED", Bit(p.SharedExpert)),                  // a shared expert is fused
		Define("EP_SKIP_A2A", Bit(p.SkipA2A)),                     // tokens are replicated and nothing is sent
		Define("EP_PACKED", Bit(p.Layout == ep.LayoutRankPacked)),
	}
	if p.Layout == ep.LayoutExpert128 {
		out = append(out, Define("EP_ROW_ALIGN", dtype.RowPad(p))) // the first row of each expert is a multiple of this
	}
	return out
}

// NewUnit returns a source with the macros for one compilation: the macros in `own`, and those macros of the problem that
// the source reads.
func NewUnit(source string, p ep.Problem, own []string) (sources.Unit, error) {
	return sources.NewUnit(source, problemDefines(p), own)
}

// Unit returns the source and the macros from which a legal config's binary is compiled for a problem.
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
