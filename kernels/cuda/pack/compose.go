package pack

import (
	"fmt"
	"math"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// canPair reports whether both configs are legal and the combine can follow the dispatch.
func (v *resolver) canPair(d, c ep.Config, tokens int) bool {
	return v.legal(v.machine(), v.at(ep.Pair, tokens), ep.Join(d, c)) == nil
}

// half is the dispatch or the combine of a pair.
type half struct {
	config ep.Config
	row    *table.Row // the row that has the config, nil if it is a default
	why    string     // why this config was taken
}

// join makes a pair of a dispatch d and a combine c whose rows use different memory. It can keep d and take
// the nearest combine that fits, keep c and take the nearest dispatch that fits, or take the nearest row
// for pairs, which is for fewer tokens. No row measured any of these three pairs at this token count. join
// takes the pair whose rows took the least time in proportion to tokens.
func (v *resolver) join(tokens int, d, c half) (Run, error) {
	dFor, dErr := v.dispatchFor(c.config, tokens)
	cFor, cErr := v.combineFor(d.config, tokens)
	keepC, keepD := took(dFor.row, tokens)+took(c.row, tokens), took(d.row, tokens)+took(cFor.row, tokens)
	all := func(ep.Config) bool { return true }
	if p, ok := v.nearest(ep.Pair, tokens, all); ok && p.row.Hi < tokens && took(p.row, tokens) <= min(keepC, keepD) {
		pd, pc, err := ep.Split(p.config)
		return Run{Pair: Pair{pd, pc}, Rows: rows(p.row), Text: "the nearest measured pair: " + p.why}, err
	}
	if keepC < keepD || cErr != nil {
		return Run{
			Pair: Pair{dFor.config, c.config}, Rows: rows(dFor.row, c.row),
			Text: c.why + "; dispatch: the nearest that writes the memory that this combine reads: " + dFor.why,
		}, dErr
	}
	return Run{
		Pair: Pair{d.config, cFor.config}, Rows: rows(d.row, cFor.row),
		Text: d.why + "; combine: the nearest that reads the memory that this dispatch writes: " + cFor.why,
	}, nil
}

// took estimates a row's time at a token count, in seconds. It assumes that time grows in proportion to
// tokens, which is wrong for few tokens. Older rows list several token counts and one median. took then
// assumes the smallest count, so that the row does not seem faster than it is. Without a row the time is
// infinite.
func took(r *table.Row, tokens int) float64 {
	if r == nil || len(r.Evidence.Tokens) == 0 {
		return math.Inf(1)
	}
	at, ok := r.Evidence.At()
	if !ok {
		at = slices.Min(r.Evidence.Tokens)
	}
	return r.Evidence.Median * float64(tokens) / float64(max(at, 1))
}

// nearest returns the row of an op whose token counts are nearest to `tokens`. Its config is legal, fits,
// and takes tokens in the callers' dtype. ok is false if there is no such row.
func (v *resolver) nearest(op ep.Op, tokens int, fits func(ep.Config) bool) (h half, ok bool) {
	best := math.Inf(1)
	for _, r := range v.runs[op] {
		a := r.Answer
		if a.Row == nil || a.Config.IsDefault() || distance(r, tokens) >= best {
			continue
		}
		if v.legal(v.machine(), v.at(op, tokens), a.Config) == nil && v.fitsTokens(op, a.Config) && fits(a.Config) {
			h, ok, best = half{a.Config, a.Row, rowText(a)}, true, distance(r, tokens)
		}
	}
	return h, ok
}

// distance returns 0 for a token count in a run, otherwise the logarithm of its ratio to the nearer end.
func distance(r table.Run, tokens int) float64 {
	switch {
	case tokens < r.Lo:
		return math.Log(float64(r.Lo) / float64(tokens))
	case tokens > r.Hi:
		return math.Log(float64(tokens) / float64(r.Hi))
	}
	return 0
}

// dispatchFor returns a dispatch that this combine can follow.
func (v *resolver) dispatchFor(combine ep.Config, tokens int) (half, error) {
	if h, ok := v.nearest(ep.Dispatch, tokens, func(d ep.Config) bool { return v.canPair(d, combine, tokens) }); ok {
		return h, nil
	}
	c, err := declare.DispatchBefore(v.machine(), v.at(ep.Dispatch, tokens), combine)
	return half{config: c, why: "its kernel's default"}, err
}

// combineFor returns a combine that can follow this dispatch.
func (v *resolver) combineFor(dispatch ep.Config, tokens int) (half, error) {
	fits := func(c ep.Config) bool { return v.canPair(dispatch, c, tokens) }
	if h, ok := v.nearest(ep.Combine, tokens, fits); ok {
		return h, nil
	}
	for _, k := range kernels.For(v.all, v.at(ep.Combine, tokens)) {
		for i, c := range k.StartsWithin(v.machine(), v.at(ep.Combine, tokens), v.request.MaxSMs) {
			if fits(c) {
				return half{config: c, why: []string{"its kernel's default", "a start of its kernel"}[min(i, 1)]}, nil
			}
		}
	}
	return half{}, fmt.Errorf("no combine can follow %s", dispatch.Key())
}

// elsewhere returns the pair for outputs outside the symmetric heap. Its dispatch is the nearest whose
// output rows are written only by their own rank.
func (v *resolver) elsewhere(tokens int) (Pair, error) {
	h, ok := v.nearest(ep.Dispatch, tokens, func(c ep.Config) bool {
		places, err := v.peersWrite(c, tokens)
		return err == nil && !places
	})
	if !ok {
		c, err := v.localDefault(tokens)
		if err != nil {
			return Pair{}, err
		}
		h.config = c
	}
	c, err := v.combineFor(h.config, tokens)
	return Pair{h.config, c.config}, err
}

// localDefault returns the default or one of the Starts of a dispatch kernel. Its output rows are written
// only by their own rank. Such configs may use several kinds of memory (states). The kernels of Modular's
// MAX, which come first, need by far more. So the first config with another state is preferred, if there is
// one.
func (v *resolver) localDefault(tokens int) (out ep.Config, err error) {
	first := ""
	for _, k := range kernels.For(v.all, v.at(ep.Dispatch, tokens)) {
		for _, c := range k.StartsWithin(v.machine(), v.at(ep.Dispatch, tokens), v.request.MaxSMs) {
			s, bad := v.describe(ep.Dispatch, c, tokens)
			if bad != nil || s.Places || !v.takes(c) || s.State == first {
				continue
			}
			if first != "" {
				return c, nil
			}
			out, first = c, s.State
		}
	}
	if out.IsDefault() {
		err = fmt.Errorf("no dispatch can write outputs outside the heap")
	}
	return out, err
}
