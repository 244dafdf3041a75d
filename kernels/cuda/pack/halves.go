package pack

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// Halves is the purpose of calls whose halves are made apart, with other work between
// them: nothing of the call may hold SMs there.
const Halves ep.Op = "halves"

// purposes are those that a layout's packs answer. Halves is among them where kernels in
// two phases work on the memory of the layout's first kernels: then they cost a few
// device binaries. Elsewhere they would need a second set of buffers, and a caller who
// wants them packs the rows of objective beside.
func (v *resolver) purposes() []ep.Op {
	out := []ep.Op{ep.Pair, ep.Dispatch, ep.Combine}
	if _, ok := v.phased(v.problem.Tokens); ok && v.request.Only == nil {
		out = append(out, Halves)
	}
	return out
}

// halves is the pair's own row where both its kernels have two phases, else the
// defaults of such kernels: searches of calls alone leave them out.
func (v *resolver) halves(tokens int) Run {
	if run, err := v.pair(tokens); err == nil && v.isPhased(run.Pair.Dispatch) && v.isPhased(run.Pair.Combine) {
		return run
	}
	p, _ := v.phased(tokens) // purposes asked
	return Run{Pair: p, Text: "default: two phases are measured beside a product alone"}
}

// phased are the defaults of the first kernels in two phases, if they read and leave
// what the layout's first kernels do.
func (v *resolver) phased(tokens int) (p Pair, ok bool) {
	d, c := v.firstPhased(ep.Dispatch, tokens), v.firstPhased(ep.Combine, tokens)
	if d.IsDefault() || c.IsDefault() {
		return p, false
	}
	same := v.pairs(d, v.defaultOf(ep.Combine, tokens), tokens) && v.pairs(d, c, tokens)
	return Pair{d, c}, same
}

func (v *resolver) firstPhased(op ep.Op, tokens int) (none ep.Config) {
	p := v.at(op, tokens)
	for _, k := range kernels.For(v.all, p) {
		if k.Phased {
			return k.DefaultWithin(v.request.Machine, p, v.request.MaxSMs)
		}
	}
	return none
}

func (v *resolver) isPhased(c ep.Config) bool {
	for _, k := range v.all {
		if k.Name == c.Kernel {
			return k.Phased
		}
	}
	return false
}
