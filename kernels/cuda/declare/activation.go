package declare

import (
	"cmp"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// activationState has no memory, because calls of an activation share no data.
var activationState = State{Name: "activation", Regions: func(ep.Problem) []Region { return nil }, Counters: onlyAbort}

// fusedSilu declares SwiGLU between an expert's two matrix products, native/kernels/silu. Its entries take EpSiluArgs
// instead of EpArgs.
func fusedSilu() Declaration {
	return Declaration{
		Kernel: kernels.Kernel{
			Name: "fused_silu", Op: ep.Activation,
			Doc: "One kernel: a warp loads 256 gates and ups of a row, multiplies, rounds to the dtype and stores.",
			Params: append([]kernels.Param{
				smsParam("16", "24", "32", "64", "132"), threadsParam("256", "512", "1024"),
				speedParam(kernels.Compile, "in_flight", "pieces of 256 columns whose loads are on their way while a warp computes another", "pieces", "1", "1", "2", "4"),
				pdlParam("0"),
			}, kernels.ActivationParams()...),
			Check: func(m ep.Machine, p ep.Problem, c ep.Config) error {
				return cmp.Or(CheckProblem(m, p), checkSMs(m, p, c, 1), checkThreads(c, Warp),
					checkSpans(c, span{"in_flight", 1, 8}), kernels.CheckActivation(p, c))
			},
			// The constants of Modular's MAX.
			Default: func(m ep.Machine, p ep.Problem) ep.Config { return fusedSilu().plain(m, p) },
		},
		source: "silu/silu.cuh", entry: siluEntry, State: activationState,
		defines: func(c ep.Config) []string {
			how := ref.ActivationOf(c)
			return []string{defineThreads(c), defineInt("EP_IN_FLIGHT", c, "in_flight"),
				Define("EP_INTERLEAVED", Bit(how.Interleaved)), Define("EP_CLAMP", Bit(how.Clamp != nil))}
		},
	}
}

func siluEntry(p ep.Problem, c ep.Config) string {
	switch {
	case p.Dispatch == ep.BF16:
		return "fused_silu"
	case p.Dispatch == ep.NVFP4 && ref.ActivationOf(c).Interleaved:
		return "fused_silu_nvfp4_interleaved"
	}
	return "fused_silu_" + string(p.Dispatch)
}
