package pack

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// Halves is the purpose of calls whose sending and receiving halves the caller makes separately.
// The caller uses the SMs for other work between the halves, so the call may not occupy any SM
// then.
const Halves ep.Op = "halves"

// purposes lists what a pack of the layout answers. Halves is among them where split-phase kernels
// use the memory of the layout's first kernels: they then cost only a few device binaries. Elsewhere
// they would need a second set of buffers: such a caller packs the rows of objective beside.
func (v *resolver) purposes() []ep.Op {
	out := []ep.Op{ep.Pair, ep.Dispatch, ep.Combine}
	if _, ok := v.phased(v.problem.Tokens); ok && v.request.Only == nil {
		out = append(out, Halves)
	}
	return out
}

// halves returns the pair's run if both its kernels have two phases. Otherwise it returns the defaults
// of kernels in two phases: a search for the fastest call finds no rows for them.
func (v *resolver) halves(tokens int) (Run, error) {
	if run, err := v.pair(tokens); err == nil && v.isPhased(run.Pair.Dispatch) && v.isPhased(run.Pair.Combine) {
		return run, nil
	}
	p, ok := v.phased(tokens)
	if !ok {
		return Run{}, fmt.Errorf("tokens: no kernels in two phases go together at %d, as some do at %d; pack with --max-tokens %d", tokens, v.problem.Tokens, tokens)
	}
	return Run{Pair: p, Text: "default: kernels in two phases are searched only beside a product"}, nil
}

// phased returns the defaults of the first kernels in two phases. ok says that they use the memory of
// the layout's first kernels.
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
		if k.SplitPhases {
			return k.DefaultWithin(v.request.Machine, p, v.request.MaxSMs)
		}
	}
	return none
}

func (v *resolver) isPhased(c ep.Config) bool {
	for _, k := range v.all {
		if k.Name == c.Kernel {
			return k.SplitPhases
		}
	}
	return false
}
