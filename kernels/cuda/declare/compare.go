package declare

import (
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// JudgedElements is the largest number of output elements that a verification compares on each rank. Larger outputs
// are sampled.
const JudgedElements = 16 << 20

// Judged returns how to compare a config's output with the oracle's: how much they may differ, and how many rows are
// compared. The oracle is the reference implementation in package ref. With an epilogue, all rows are compared.
func (f Declaration) Judged(p ep.Problem, c ep.Config) ref.Compare {
	out, s := ref.Compare{}, f.StateOf(c)
	if f.Kernel.Op == ep.Combine {
		out.Bits, out.Partial = s.bits, partialOf(c)
	} else {
		out.Ordered = s.ordered
	}
	switch c.Str("epilogue") {
	case "scale":
		out.Epilogue = &ref.Epilogue{Scale: EpilogueScale}
	case "bias":
		out.Epilogue = &ref.Epilogue{Bias: Bias(p.Hidden)}
	default:
		out.MaxRows = max(JudgedElements/p.Hidden, 1)
	}
	return out
}

// JudgedAs finds the declaration of the config's kernel and calls its Judged.
func JudgedAs(p ep.Problem, c ep.Config) (ref.Compare, error) {
	f, err := Find(c.Kernel)
	return f.Judged(p, c), err
}

func partialOf(c ep.Config) ref.Partial {
	switch {
	case holds(c, "route=direct"):
		return ref.NoPartial
	case holds(c, "algo=dedup"), holds(c, "partial=bf16"):
		return ref.BF16Partial
	case holds(c, "partial=f32"), holds(c, "own=registers"):
		return ref.F32Partial
	}
	return ref.NoPartial
}

// EpilogueScale is EpArgs.epilogue_scale in every verification.
const EpilogueScale = 0.5

// Bias returns the values of EpArgs.bias in every verification: BF16 from 0.5 to just below 1.
func Bias(hidden int) []uint16 {
	out := make([]uint16, hidden)
	for i := range out {
		out[i] = 0x3f00 | uint16(i%128)
	}
	return out
}
