package spacefile

import (
	"fmt"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"github.com/epbench/epbench/tune"
	"github.com/epbench/epbench/tune/plan"
)

// Facts are what expressions know besides the parameters, which go by their
// own names.
type Facts struct {
	Machine MachineFacts `expr:"machine"`
	Problem ProblemFacts `expr:"problem"`
}

// MachineFacts are machine.NAME in expressions.
type MachineFacts struct {
	Backend string `expr:"backend"`
	Arch    string `expr:"arch"`
	SMs     int    `expr:"sms"`          // of one GPU
	GPUs    int    `expr:"gpus"`         //
	Memory  int    `expr:"memory_bytes"` // of one GPU
}

// ProblemFacts are problem.NAME in expressions.
type ProblemFacts struct {
	Op           string `expr:"op"`
	Format       string `expr:"format"`
	Ranks        int    `expr:"ranks"`
	Nodes        int    `expr:"nodes"`
	Hidden       int    `expr:"hidden"` // elements
	Experts      int    `expr:"experts"`
	LocalExperts int    `expr:"local_experts"` // of one rank
	TopK         int    `expr:"top_k"`
	Tokens       int    `expr:"tokens"` // of one rank
	MaxTokens    int    `expr:"max_tokens"`
}

// FactsOf are the facts of a machine and a problem.
func FactsOf(m plan.Machine, p plan.Problem) Facts {
	return Facts{
		MachineFacts{m.Backend, m.Arch, m.SMs, m.GPUs, int(m.Memory)},
		ProblemFacts{string(p.Op), string(p.Dispatch), p.Ranks, p.Nodes, p.Hidden, p.Experts,
			p.LocalExperts(), p.TopK, p.Tokens, p.MaxTokens},
	}
}

// Rules compiles the constraints that apply to a kernel. Expressions are
// typed: a parameter whose values are all integers is an int, any other a
// string, and a comparison of the two is an error here.
func (f *File) Rules(kernel string, axes []tune.Axis, facts Facts) ([]tune.Rule, error) {
	if f == nil {
		return nil, nil
	}
	e := &scope{axes: axes, env: map[string]any{"machine": facts.Machine, "problem": facts.Problem}}
	for _, a := range axes {
		e.env[a.Name] = typed(a, a.Values[0])
	}
	if err := e.derive(f.Derived, f.appliesTo(kernel)); err != nil {
		return nil, err
	}
	var out []tune.Rule
	for _, c := range f.Constraints {
		if len(c.Kernels) > 0 && !slices.Contains(c.Kernels, kernel) {
			continue
		}
		rule, err := e.rule(c)
		if err != nil {
			return nil, err
		}
		out = append(out, rule)
	}
	return out, nil
}

// appliesTo reports whether any constraint speaks of a kernel; derived values
// of other kernels' parameters need not compile for it.
func (f *File) appliesTo(kernel string) bool {
	return slices.ContainsFunc(f.Constraints, func(c Constraint) bool {
		return len(c.Kernels) == 0 || slices.Contains(c.Kernels, kernel)
	})
}

// scope is what the expressions of one kernel see.
type scope struct {
	axes    []tune.Axis
	env     map[string]any
	derived []derivation
	vm      vm.VM
}

type derivation struct {
	name string
	code *vm.Program
}

func (e *scope) derive(ds []Derived, used bool) error {
	for _, d := range ds {
		if !used {
			return nil
		}
		if _, taken := e.env[d.Name]; taken {
			return fmt.Errorf("space: derived %s: the name is taken", d.Name)
		}
		code, err := expr.Compile(d.Value, expr.Env(e.env))
		if err != nil {
			return fmt.Errorf("space: derived %s: %s", d.Name, firstLine(err))
		}
		value, err := expr.Run(code, e.env)
		if err != nil {
			return fmt.Errorf("space: derived %s: %s", d.Name, firstLine(err))
		}
		e.env[d.Name] = value
		e.derived = append(e.derived, derivation{d.Name, code})
	}
	return nil
}

func (e *scope) rule(c Constraint) (tune.Rule, error) {
	name := c.Name
	if name == "" {
		name = c.Keep
	}
	code, err := expr.Compile(c.Keep, expr.Env(e.env), expr.AsBool())
	if err != nil {
		return nil, fmt.Errorf("space: constraint %s: %s", name, firstLine(err))
	}
	return func(cfg plan.Config) string {
		if e.keeps(code, cfg) {
			return ""
		}
		return name
	}, nil
}

// keeps evaluates a constraint; an expression that fails, as by a division by
// zero, does not keep.
func (e *scope) keeps(code *vm.Program, cfg plan.Config) bool {
	for _, a := range e.axes {
		e.env[a.Name] = typed(a, cfg.Values[a.Name])
	}
	for _, d := range e.derived {
		v, err := e.vm.Run(d.code, e.env)
		if err != nil {
			return false
		}
		e.env[d.name] = v
	}
	out, err := e.vm.Run(code, e.env)
	keep, ok := out.(bool)
	return err == nil && ok && keep
}

// typed is a value as its axis' type.
func typed(a tune.Axis, v plan.Value) any {
	for _, w := range a.Values {
		if _, ok := w.Int(); !ok {
			return string(v)
		}
	}
	n, _ := v.Int()
	return n
}
