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

// pairs reports whether both configs are legal and the combine can follow the dispatch.
func (v *resolver) pairs(d, c ep.Config, tokens int) bool {
	return v.legal(v.machine(), v.at(ep.Pair, tokens), ep.Join(d, c)) == nil
}

// half is one op of a pair with the row that chose its config. The row is nil for a
// default.
type half struct {
	config ep.Config
	row    *table.Row
	why    string
}

// join makes a pair from halves whose rows use different memory. There are three ways: each half can
// keep its row while the other takes the nearest row that fits, and the nearest row for pairs can
// answer beyond the token counts that it holds for. None of them was measured at this count. join
// takes the way whose rows took the least time in proportion to tokens.
func (v *resolver) join(tokens int, d, c half) (Run, error) {
	dFor, dErr := v.dispatchFor(c.config, tokens)
	cFor, cErr := v.combineFor(d.config, tokens)
	keepC, keepD := took(dFor.row, tokens)+took(c.row, tokens), took(d.row, tokens)+took(cFor.row, tokens)
	all := func(ep.Config) bool { return true }
	if p, ok := v.nearest(ep.Pair, tokens, all); ok && p.row.Hi < tokens && took(p.row, tokens) <= min(keepC, keepD) {
		pd, pc, err := ep.Split(p.config)
		return Run{Pair: Pair{pd, pc}, Rows: rows(p.row), Text: "the nearest pair that was measured: " + p.why}, err
	}
	if keepC < keepD || cErr != nil {
		return Run{
			Pair: Pair{dFor.config, c.config}, Rows: rows(dFor.row, c.row),
			Text: c.why + "; dispatch: the nearest that leaves what this combine reads: " + dFor.why,
		}, dErr
	}
	return Run{
		Pair: Pair{d.config, cFor.config}, Rows: rows(d.row, cFor.row),
		Text: d.why + "; combine: the nearest that reads what this dispatch leaves: " + cFor.why,
	}, nil
}

// took estimates a row's time at a number of tokens, in seconds. It assumes that time grows in
// proportion to tokens, which is wrong for a few tokens. An older row of several counts does not say
// for which its median is: took then assumes the smallest, so that the row does not look faster at
// more tokens than it is. Without a row the time is infinite.
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

// nearest returns the row of an op whose token counts are nearest, among those whose config is legal,
// fits, and takes tokens as the callers have them. ok is false if there is none.
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

// distance returns how far a token count is outside a run, as the logarithm of a ratio.
func distance(r table.Run, tokens int) float64 {
	switch {
	case tokens < r.Lo:
		return math.Log(float64(r.Lo) / float64(tokens))
	case tokens > r.Hi:
		return math.Log(float64(tokens) / float64(r.Hi))
	}
	return 0
}

// dispatchFor returns a dispatch whose tokens a combine can return.
func (v *resolver) dispatchFor(combine ep.Config, tokens int) (half, error) {
	if h, ok := v.nearest(ep.Dispatch, tokens, func(d ep.Config) bool { return v.pairs(d, combine, tokens) }); ok {
		return h, nil
	}
	c, err := declare.DispatchBefore(v.machine(), v.at(ep.Dispatch, tokens), combine)
	return half{config: c, why: "its kernel's default"}, err
}

// combineFor returns a combine that can return a dispatch's tokens.
func (v *resolver) combineFor(dispatch ep.Config, tokens int) (half, error) {
	fits := func(c ep.Config) bool { return v.pairs(dispatch, c, tokens) }
	if h, ok := v.nearest(ep.Combine, tokens, fits); ok {
		return h, nil
	}
	for _, k := range kernels.For(v.all, v.at(ep.Combine, tokens)) {
		if c := k.DefaultWithin(v.machine(), v.at(ep.Combine, tokens), v.request.MaxSMs); fits(c) {
			return half{config: c, why: "its kernel's default"}, nil
		}
	}
	return half{}, fmt.Errorf("no combine can follow %s", dispatch.Key())
}

// elsewhere returns the pair for outputs outside the heap: its dispatch is the nearest one whose
// receivers write all rows themselves.
func (v *resolver) elsewhere(tokens int) (Pair, error) {
	h, ok := v.nearest(ep.Dispatch, tokens, func(c ep.Config) bool {
		places, err := v.places(c, tokens)
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

// localDefault returns a default whose receivers write all rows: that of the second such kernel, or
// of the only one. The first kernel is MAX's design, which needs by far the most memory.
func (v *resolver) localDefault(tokens int) (out ep.Config, err error) {
	found := 0
	for _, k := range kernels.For(v.all, v.at(ep.Dispatch, tokens)) {
		c := k.DefaultWithin(v.machine(), v.at(ep.Dispatch, tokens), v.request.MaxSMs)
		if places, bad := v.places(c, tokens); bad == nil && !places && v.takes(c) && found < 2 {
			out, found = c, found+1
		}
	}
	if out.IsDefault() {
		err = fmt.Errorf("no dispatch writes its rows itself")
	}
	return out, err
}
