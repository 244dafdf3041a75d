package pack

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// Halves is the purpose of a caller that makes the sending and the receiving half of a call separately.
// Between the halves the caller uses the SMs for other work, so the call must not occupy any SM.
const Halves ep.Op = "halves"

// purposes lists the purposes for which a pack of the layout has answers. Halves is in the list if
// split-phase kernels use the same memory as the layout's first kernels: they then cost only a few device
// binaries. Otherwise they would need a second set of buffers. Then only rows that were measured with a
// matrix product beside the calls bring them into a pack.
func (v *resolver) purposes() []ep.Op {
	out := []ep.Op{ep.Pair, ep.Dispatch, ep.Combine}
	if _, ok := v.phased(v.problem.Tokens); ok && v.request.Only == nil {
		out = append(out, Halves)
	}
	return out
}

// halves returns the run for pairs if both of its kernels are split-phase. Otherwise it returns the
// defaults of split-phase kernels, for which a search for the fastest call makes no rows.
func (v *resolver) halves(tokens int) (Run, error) {
	if run, err := v.pair(tokens); err == nil && v.isPhased(run.Pair.Dispatch) && v.isPhased(run.Pair.Combine) {
		return run, nil
	}
	p, ok := v.phased(tokens)
	if !ok {
		return Run{}, fmt.Errorf("tokens: no split-phase dispatch and combine can follow each other at %d tokens, although some can at %d; pack with --max-tokens %d", tokens, v.problem.Tokens, tokens)
	}
	return Run{Pair: p, Text: "default: split-phase kernels are searched only with a matrix product beside the calls"}, nil
}

// phased returns the defaults of the first split-phase kernels. ok is true if they use the same memory
// as the layout's first kernels.
func (v *resolver) phased(tokens int) (p Pair, ok bool) {
	d, c := v.firstPhased(ep.Dispatch, tokens), v.firstPhased(ep.Combine, tokens)
	if d.IsDefault() || c.IsDefault() {
		return p, false
	}
	same := v.canPair(d, v.defaultOf(ep.Combine, tokens), tokens) && v.canPair(d, c, tokens)
	return Pair{d, c}, same
}

// firstPhased returns the split-phase default of an op's first kernel that has one, or a zero config.
func (v *resolver) firstPhased(op ep.Op, tokens int) (none ep.Config) {
	p := v.at(op, tokens)
	for _, k := range kernels.For(v.all, p) {
		if k.Split != nil {
			return k.SplitWithin(v.request.Machine, p, v.request.MaxSMs)
		}
	}
	return none
}

// isPhased reports whether a config has split phases.
func (v *resolver) isPhased(c ep.Config) bool {
	for _, k := range v.all {
		if k.Name == c.Kernel {
			return k.Splits(c)
		}
	}
	return false
}
