package pack

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// Halves is the purpose of callers that send in one call and receive in a second call.
const Halves ep.Op = "halves"

// purposes lists a layout's purposes. Halves needs split-phase kernels, which send in one launch and receive in
// another. They must have the same State (memory between calls) as the default kernels.
func (v *resolver) purposes() []ep.Op {
	out := []ep.Op{ep.Pair, ep.Dispatch, ep.Combine}
	if _, ok := v.phased(v.problem.Tokens); ok && v.request.Only == nil {
		out = append(out, Halves)
	}
	return out
}

// halves returns the run for pairs if it is split-phase, otherwise split-phase defaults.
func (v *resolver) halves(tokens int) (Run, error) {
	if run, err := v.pair(tokens); err == nil && v.isPhased(run.Pair.Dispatch) && v.isPhased(run.Pair.Combine) {
		return run, nil
	}
	p, ok := v.phased(tokens)
	if !ok {
		return Run{}, fmt.Errorf("tokens: no split-phase dispatch and combine can follow each other at %d tokens, although some can at %d; pack with --max-tokens %d", tokens, v.problem.Tokens, tokens)
	}
	return Run{Pair: p, Text: "default: no table row has a split-phase pair for these tokens; only sweeps with --beside measure such pairs"}, nil
}

// phased returns the default configs of the first split-phase kernels. ok is true if they have the same State as the
// default kernels.
func (v *resolver) phased(tokens int) (p Pair, ok bool) {
	d, c := v.firstPhased(ep.Dispatch, tokens), v.firstPhased(ep.Combine, tokens)
	if d.IsDefault() || c.IsDefault() {
		return p, false
	}
	same := v.canPair(d, v.defaultOf(ep.Combine, tokens), tokens) && v.canPair(d, c, tokens)
	return Pair{d, c}, same
}

func (v *resolver) firstPhased(op ep.Op, tokens int) (none ep.Config) {
	p := v.at(op, tokens)
	for _, k := range kernels.For(v.all, p) {
		if k.Split != nil {
			return k.SplitWithin(v.request.Machine, p, v.request.MaxSMs)
		}
	}
	return none
}

func (v *resolver) isPhased(c ep.Config) bool {
	for _, k := range v.all {
		if k.Name == c.Kernel {
			return k.Splits(c)
		}
	}
	return false
}
