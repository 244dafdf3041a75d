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

// Request describes the pack to make.
type Request struct {
	Problem ep.Problem // op and dtype are ignored
	DTypes  []ep.DType // the first is the default
	Raw     bool       // callers pass fp8 tokens
	Reduced bool       // also pack reduced precision
	// Survivors makes kernels continue without a lost rank. It needs a single host and layout masked, rank or
	// rank:packed.
	Survivors bool
	MaxSMs    int // 0: no bound
	Machine   ep.Machine
	Tables    *table.Set // nil packs defaults
	ABI       ep.ABI
	// Certified accepts only table rows of this build.
	Certified bool
	// OtherMachines accepts table rows of other GPUs with the same architecture and link.
	OtherMachines bool

	// The field Only holds one dispatch and one combine to use instead of the tables, or nil. Problem.Tokens is the
	// largest token count for which these two configs may run; 0 means no bound.
	Only *[2]ep.Config
}

// Pair is a dispatch and the combine after it.
type Pair struct{ Dispatch, Combine ep.Config }

// Run holds a range of token counts, and the one answer to all of them. A count is that of the rank with the most
// tokens.
type Run struct {
	Lo, Hi    int
	Pair      Pair
	Elsewhere Pair // for outputs outside the symmetric heap
	Text      string
	Rows      []*table.Row // none for a default
	// Certified is true for rows of this build and kind of machine.
	Certified bool
}

// Lookup holds the runs of one dtype, precision, purpose and routing class.
type Lookup struct {
	DType   ep.DType
	Reduced bool
	Purpose ep.Op
	Class   ep.Class
	Runs    []Run
}

type resolver struct {
	request Request
	all     []kernels.Kernel
	problem ep.Problem
	class   ep.Class
	runs    map[ep.Op][]table.Run
	doubted map[*table.Row]bool // rows of an earlier build or another machine
}

func (r Request) lookups() (out []Lookup, notes []string, err error) {
	said := map[string]bool{}
	for _, d := range r.DTypes {
		for _, reduced := range []bool{false, true} {
			if reduced && !r.Reduced {
				continue
			}
			rows, more := r.resolver(d, reduced, ep.AllRoutings).resolve()
			for _, n := range more {
				if !said[n] {
					said[n] = true
					notes = append(notes, n)
				}
			}
			for _, c := range ep.Classes() {
				v := r.resolver(d, reduced, c)
				v.take(rows)
				for _, op := range v.purposes() {
					l := Lookup{DType: d, Reduced: reduced, Purpose: op, Class: c}
					if l.Runs, err = v.answer(op); err != nil {
						return nil, notes, fmt.Errorf("%s %s: %w", d, op, err)
					}
					out = append(out, l)
				}
			}
		}
	}
	return out, notes, nil
}

func (r Request) resolver(d ep.DType, reduced bool, c ep.Class) *resolver {
	p := r.Problem
	p.Mode, p.Nodes, p.Combine, p.Dispatch, p.Op, p.Tokens = ep.Graph, max(p.Nodes, 1), ep.BF16, d, ep.Dispatch, p.MaxTokens
	p.Precision = ep.Full
	if reduced {
		p.Precision = ep.Reduced
	}
	return &resolver{request: r, all: declare.KernelsOver(p.Nodes, r.Machine), problem: p, class: c, runs: map[ep.Op][]table.Run{}, doubted: map[*table.Row]bool{}}
}

// machine returns the machine with at most MaxSMs SMs and a GPU for each rank.
func (v *resolver) machine() ep.Machine {
	m := v.request.Machine
	m.GPUs = max(m.GPUs, v.problem.Ranks)
	if v.request.MaxSMs > 0 {
		m.SMs = min(m.SMs, v.request.MaxSMs)
	}
	return m
}

func (v *resolver) at(op ep.Op, tokens int) ep.Problem {
	p := v.problem
	if most := v.request.Problem.Tokens; v.request.Only != nil && most > 0 {
		tokens = min(tokens, most)
	}
	p.Op, p.Tokens = op, tokens
	return p
}

func (v *resolver) legal(m ep.Machine, p ep.Problem, c ep.Config) error {
	k, err := kernels.Find(v.all, p.Op, c.Kernel)
	if err != nil {
		return err
	}
	return k.Check(m, p, c)
}

func (v *resolver) resolve() (answers map[ep.Op]*table.Resolved, notes []string) {
	set := v.request.Tables
	if set == nil || v.request.Only != nil {
		set = table.Overlay()
	}
	host := table.Host{Machine: v.request.Machine, ABI: v.request.ABI, OnlyThisBuild: v.request.Certified, OtherMachines: v.request.OtherMachines}
	host.Current = func(c ep.Config) ep.Config { return kernels.Current(v.all, c) }
	if v.raw() {
		host.Hooks = "input=fp8"
	}
	host.Check = func(_ ep.Machine, p ep.Problem, c ep.Config) error { return v.legal(v.machine(), p, c) }
	answers = map[ep.Op]*table.Resolved{}
	for _, op := range ep.Exchanges() {
		answers[op] = set.Resolve(host, v.at(op, 0))
		notes = append(notes, answers[op].Notes()...)
	}
	return answers, notes
}

func (v *resolver) take(answers map[ep.Op]*table.Resolved) {
	for _, op := range ep.Exchanges() {
		v.runs[op] = answers[op].Runs(v.class, 1, v.problem.MaxTokens)
		for _, run := range v.runs[op] {
			v.doubted[run.Answer.Row] = run.Answer.EarlierBuild || run.Answer.OtherMachine
		}
	}
}

// answer returns the runs of a purpose.
func (v *resolver) answer(purpose ep.Op) ([]Run, error) {
	var out []Run
	for lo := 1; lo <= v.problem.MaxTokens; {
		hi := v.problem.MaxTokens
		for _, runs := range v.runs {
			hi = min(hi, runAt(runs, lo).Hi)
		}
		run, err := v.answerAt(purpose, lo)
		if err != nil {
			return nil, err
		}
		if hi, err = v.steady(purpose, run, lo, hi); err != nil {
			return nil, err
		}
		run.Lo, run.Hi = lo, hi
		if n := len(out) - 1; n >= 0 && out[n].Text == run.Text && same(out[n].Pair, run.Pair) && same(out[n].Elsewhere, run.Elsewhere) {
			out[n].Hi = hi
		} else {
			out = append(out, run)
		}
		lo = hi + 1
	}
	return out, nil
}

// steady returns the largest count up to `hi` that has the same answer as `lo`. Between these counts, defaults change
// at most once.
func (v *resolver) steady(purpose ep.Op, run Run, lo, hi int) (int, error) {
	alike := func(tokens int) (bool, error) {
		other, err := v.answerAt(purpose, tokens)
		return same(other.Pair, run.Pair) && same(other.Elsewhere, run.Elsewhere), err
	}
	if ok, err := alike(hi); ok || err != nil {
		return hi, err
	}
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		ok, err := alike(mid)
		if err != nil {
			return 0, err
		}
		if ok {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, nil
}

func same(a, b Pair) bool {
	return a.Dispatch.Key() == b.Dispatch.Key() && a.Combine.Key() == b.Combine.Key()
}

func runAt(runs []table.Run, tokens int) table.Run {
	for _, r := range runs {
		if tokens <= r.Hi {
			return r
		}
	}
	return table.Run{Lo: tokens, Hi: math.MaxInt, Answer: &table.Answer{Reason: table.Uncovered}}
}

func (v *resolver) answerAt(purpose ep.Op, tokens int) (run Run, err error) {
	if only := v.request.Only; only != nil {
		run = Run{Pair: Pair{kernels.Current(v.all, only[0]), kernels.Current(v.all, only[1])}, Text: "forced"}
	} else if purpose == Halves {
		run, err = v.halves(tokens)
	} else if purpose == ep.Pair {
		run, err = v.pair(tokens)
	} else {
		run, err = v.alone(purpose, tokens)
	}
	if err != nil {
		return run, err
	}
	run.Certified = len(run.Rows) > 0 && !slices.ContainsFunc(run.Rows, func(r *table.Row) bool { return v.doubted[r] })
	run.Pair.Dispatch = v.withInput(run.Pair.Dispatch)
	run.Elsewhere = run.Pair
	if places, err := v.peersWrite(run.Pair.Dispatch, tokens); err != nil || !places {
		return run, err
	}
	run.Elsewhere, err = v.elsewhere(tokens)
	run.Elsewhere.Dispatch = v.withInput(run.Elsewhere.Dispatch)
	return run, err
}

// withInput adds input=fp8 if the callers convert the tokens to FP8.
func (v *resolver) withInput(c ep.Config) ep.Config {
	if v.raw() && declare.MayTakeCast(c) {
		return c.With("input", "fp8")
	}
	return c
}

func (v *resolver) raw() bool { return v.request.Raw && v.problem.Dispatch == ep.FP8 }

// takes reports whether a dispatch takes tokens in the dtype of the callers.
func (v *resolver) takes(dispatch ep.Config) bool {
	if v.raw() {
		return declare.MayTakeCast(dispatch)
	}
	return !declare.TakesCast(dispatch)
}

func (v *resolver) fitsTokens(op ep.Op, c ep.Config) bool {
	switch op {
	case ep.Dispatch:
		return v.takes(c)
	case ep.Pair:
		d, _, err := ep.Split(c)
		return err == nil && v.takes(d)
	}
	return true
}

// peersWrite reports whether other ranks write a dispatch's output rows.
func (v *resolver) peersWrite(c ep.Config, tokens int) (bool, error) {
	s, err := declare.DescribeCall(v.machine(), v.at(ep.Dispatch, tokens), c)
	return s.Places, err
}

func (v *resolver) chosen(op ep.Op, tokens int) half {
	a := runAt(v.runs[op], tokens).Answer
	if a.Row == nil || a.Config.IsDefault() {
		return half{v.defaultOf(op, tokens), a.Row, "default: " + defaultReason(a)}
	}
	if op == ep.Dispatch && !v.takes(a.Config) {
		return half{v.defaultOf(op, tokens), a.Row, "default: the row's kernel does not take tokens in the dtype of this pack's callers"}
	}
	return half{a.Config, a.Row, rowText(a)}
}

func (v *resolver) defaultOf(op ep.Op, tokens int) ep.Config {
	p := v.at(op, tokens)
	return kernels.For(v.all, p)[0].DefaultWithin(v.request.Machine, p, v.request.MaxSMs)
}

func defaultReason(a *table.Answer) string {
	switch a.Reason {
	case table.Kept:
		return "measured, nothing is faster"
	case table.Illegal:
		return "the row's config cannot run within these bounds"
	case table.Refused:
		return "there is no table for these kernels, ranks and dtype"
	}
	return "no row covers this token count"
}

func rowText(a *table.Answer) string {
	e := a.Row.Evidence
	text := fmt.Sprintf("%s row for %d to %d tokens, %s: %.2f us, gain %.3f [%.3f, %.3f], %d rounds",
		a.Row.Key.Op, a.Row.Lo, a.Row.Hi, a.Row.Key.Routing, e.Median*1e6, e.Gain, e.GainLow, e.GainHigh, e.Rounds)
	if len(a.Differs) > 0 {
		text += fmt.Sprintf(", measured with other %v", a.Differs)
	}
	if a.OtherMachine {
		text += ", measured on other GPUs"
	}
	if a.EarlierBuild {
		text += ", measured with an earlier build"
	}
	return text
}

func (v *resolver) pair(tokens int) (Run, error) {
	if a := runAt(v.runs[ep.Pair], tokens).Answer; a.Row != nil && !a.Config.IsDefault() {
		d, c, err := ep.Split(a.Config)
		if err != nil || v.takes(d) {
			return Run{Pair: Pair{d, c}, Text: rowText(a), Rows: []*table.Row{a.Row}}, err
		}
	} else if a.Reason == table.Kept {
		return Run{
			Pair: Pair{v.defaultOf(ep.Dispatch, tokens), v.defaultOf(ep.Combine, tokens)},
			Text: "default: " + defaultReason(a), Rows: rows(a.Row),
		}, nil
	}
	d, c := v.chosen(ep.Dispatch, tokens), v.chosen(ep.Combine, tokens)
	if v.canPair(d.config, c.config, tokens) {
		return Run{Pair: Pair{d.config, c.config}, Text: d.why + "; " + c.why, Rows: rows(d.row, c.row)}, nil
	}
	return v.join(tokens, d, c)
}

// alone returns the best config of one op, and a config of the other op that fits it.
func (v *resolver) alone(op ep.Op, tokens int) (Run, error) {
	h := v.chosen(op, tokens)
	run := Run{Text: h.why, Rows: rows(h.row)}
	if op == ep.Dispatch {
		c, err := v.combineFor(h.config, tokens)
		run.Pair = Pair{h.config, c.config}
		return run, err
	}
	d, err := v.dispatchFor(h.config, tokens)
	run.Pair = Pair{d.config, h.config}
	return run, err
}

func rows(all ...*table.Row) (out []*table.Row) {
	for _, r := range all {
		if r != nil {
			out = append(out, r)
		}
	}
	return out
}
