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

// pairs says whether a combine reads what a dispatch leaves, and both can run.
func (v *resolver) pairs(d, c ep.Config, tokens int) bool {
	return v.legal(v.machine(), v.at(ep.Pair, tokens), ep.Join(d, c)) == nil
}

// half is one op of a pair and the row behind it, nil for a default.
type half struct {
	config ep.Config
	row    *table.Row
	why    string
}

// join makes a pair where the rows of its halves leave and read different memory. One half
// keeps its row and the other takes the nearest row that fits; or the nearest row of pairs
// answers, beyond the token counts that it holds for. None of the three ways was measured at
// this count: the one whose rows took least, in proportion to tokens, is taken.
func (v *resolver) join(tokens int, d, c half) (Run, error) {
	dFor, dErr := v.dispatchFor(c.config, tokens)
	cFor, cErr := v.combineFor(d.config, tokens)
	keepC, keepD := took(dFor.row, tokens)+took(c.row, tokens), took(d.row, tokens)+took(cFor.row, tokens)
	all := func(ep.Config) bool { return true } // that nearest looks at
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

// took estimates a row's time at a number of tokens, in seconds: it takes time to be
// proportional to tokens, which calls of a few tokens are not. Older rows of several counts
// do not say which of them their median is of. The smallest is taken then, so that a row does
// not look faster at more tokens than it is. Without a row it is infinite.
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

// nearest is an op's row whose token counts are nearest and whose config meets a
// condition; ok is false where no row does. Rows for tokens that the callers do not have are
// no rows.
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

// distance of a token count from a run, as a ratio's logarithm.
func distance(r table.Run, tokens int) float64 {
	switch {
	case tokens < r.Lo:
		return math.Log(float64(r.Lo) / float64(tokens))
	case tokens > r.Hi:
		return math.Log(float64(tokens) / float64(r.Hi))
	}
	return 0
}

// dispatchFor is a dispatch whose tokens a combine can return.
func (v *resolver) dispatchFor(combine ep.Config, tokens int) (half, error) {
	if h, ok := v.nearest(ep.Dispatch, tokens, func(d ep.Config) bool { return v.pairs(d, combine, tokens) }); ok {
		return h, nil
	}
	c, err := declare.FollowsDispatch(v.machine(), v.at(ep.Dispatch, tokens), combine)
	return half{config: c, why: "its kernel's default"}, err
}

// combineFor is a combine that can return a dispatch's tokens.
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

// elsewhere is the pair for outputs outside the heap: the nearest dispatch whose
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

// localDefault is the default of the second kernel whose receivers write all rows, or of
// the only one: the library's own stands first and needs by far the most memory.
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
