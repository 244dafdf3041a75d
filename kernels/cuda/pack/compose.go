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

func (v *resolver) canPair(d, c ep.Config, tokens int) bool {
	return v.legal(v.machine(), v.at(ep.Pair, tokens), ep.Join(d, c)) == nil
}

type half struct {
	config ep.Config
	row    *table.Row // nil for a default
	why    string
}

// join makes a pair of dispatch d and combine c, which do not fit together: the kernel of c cannot read the memory that
// d writes. It replaces d or c by a config that fits the other one, or it takes the nearest row for pairs.
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
			Text: c.why + "; dispatch: the nearest one whose output this combine can read: " + dFor.why,
		}, dErr
	}
	return Run{
		Pair: Pair{d.config, cFor.config}, Rows: rows(d.row, cFor.row),
		Text: d.why + "; combine: the nearest one that can read the output of this dispatch: " + cFor.why,
	}, nil
}

// took estimates a row's seconds at `tokens` tokens, in proportion to its timed token count. It returns infinity
// without a row. If the timed count is unknown, took uses the row's smallest count. A larger count would make the
// estimate too short.
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

// nearest returns the row of an op that is nearest to `tokens`. The row must be legal, and `fits` must accept it.
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

func distance(r table.Run, tokens int) float64 {
	switch {
	case tokens < r.Lo:
		return math.Log(float64(r.Lo) / float64(tokens))
	case tokens > r.Hi:
		return math.Log(float64(tokens) / float64(r.Hi))
	}
	return 0
}

func (v *resolver) dispatchFor(combine ep.Config, tokens int) (half, error) {
	if h, ok := v.nearest(ep.Dispatch, tokens, func(d ep.Config) bool { return v.canPair(d, combine, tokens) }); ok {
		return h, nil
	}
	c, err := declare.DispatchBefore(v.machine(), v.at(ep.Dispatch, tokens), combine)
	return half{config: c, why: "its kernel's default"}, err
}

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

// elsewhere returns the pair for outputs outside the symmetric heap, where other ranks cannot write rows.
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

// localDefault returns a dispatch whose output rows no other rank writes. The first such dispatch comes from Modular's
// MAX and needs far more memory than the others. So localDefault prefers a dispatch with another State.
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
