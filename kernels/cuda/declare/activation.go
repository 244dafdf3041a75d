package declare

import (
	"cmp"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// activationKernels declares the kernel that computes SwiGLU between an expert's two matrix products. The source is in
// native/kernels/silu. Its entry points take EpSiluArgs instead of EpArgs. Calls share no data, so the kernel has no
// memory of its own. The default values are the constants of Modular's MAX.
func activationKernels() []Declaration {
	return []Declaration{{
		Kernel: kernels.Kernel{
			Name: "fused_silu", Op: ep.Activation, Check: checkSilu,
			Doc:    "One kernel: a warp loads 256 gate values and 256 up values of a row, computes SwiGLU, rounds to the dtype and stores.",
			Params: slices.Concat(params("sms 16 24 32 64 *132", "threads 256 512 *1024", "in_flight/silu", "pdl *0 1"), kernels.ActivationParams()),
		},
		source: "silu/silu.cuh", State: State{Name: "activation"},
		macros: "EP_IN_FLIGHT=in_flight EP_INTERLEAVED=columns=interleaved EP_CLAMP=clamp=gpt-oss",
		values: rules{}.list,
	}}
}

func checkSilu(m ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(CheckProblem(m, p), checkSMs(m, p, c, 1), checkThreads(c, Warp), checkSpans(c, span{"in_flight", 1, 8}),
		kernels.CheckActivation(p, c))
}

// siluEntry returns the name of the entry point for the problem's dtype. Only NVFP4 has a separate entry point for
// interleaved columns.
func siluEntry(p ep.Problem, c ep.Config) string {
	switch {
	case p.Dispatch == ep.BF16:
		return "fused_silu"
	case p.Dispatch == ep.NVFP4 && holds(c, "columns=interleaved"):
		return "fused_silu_nvfp4_interleaved"
	}
	return "fused_silu_" + string(p.Dispatch)
}
