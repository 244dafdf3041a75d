package spacefile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
)

// Facts holds what expressions in a space file may use, besides the kernel's parameters.
type Facts struct {
	Machine MachineFacts `expr:"machine"`
	Problem ProblemFacts `expr:"problem"`
}

// MachineFacts holds what expressions write as machine.NAME.
type MachineFacts struct {
	Backend string `expr:"backend"`
	Arch    string `expr:"arch"`
	SMs     int    `expr:"sms"` // of one GPU
	GPUs    int    `expr:"gpus"`
	Memory  int    `expr:"memory_bytes"` // of one GPU
}

// ProblemFacts holds what expressions write as problem.NAME.
type ProblemFacts struct {
	Op           string `expr:"op"`
	DType        string `expr:"dtype"` // of dispatched tokens
	Ranks        int    `expr:"ranks"`
	Nodes        int    `expr:"nodes"`
	Hidden       int    `expr:"hidden"` // in elements
	Experts      int    `expr:"experts"`
	LocalExperts int    `expr:"local_experts"`
	TopK         int    `expr:"top_k"`
	Tokens       int    `expr:"tokens"` // of one rank
	MaxTokens    int    `expr:"max_tokens"`
}

// FactsOf returns the facts of a machine and a problem.
func FactsOf(m ep.Machine, p ep.Problem) Facts {
	return Facts{
		MachineFacts{m.Backend, m.Arch, m.SMs, m.GPUs, int(m.Memory)},
		ProblemFacts{string(p.Op), string(p.Dispatch), p.Ranks, p.Nodes, p.Hidden, p.Experts,
			p.LocalExperts(), p.TopK, p.Tokens, p.MaxTokens},
	}
}

// Rules compiles the constraints of a kernel into one rule. In expressions, a parameter is an int if all its values are
// integers. Otherwise it is a string.
func (f *File) Rules(kernel string, axes []search.Axis, facts Facts) ([]search.Rule, error) {
	if f == nil {
		return nil, nil
	}
	e := &scope{env: map[string]any{"machine": facts.Machine, "problem": facts.Problem}}
	for _, a := range axes {
		e.axes = append(e.axes, typedAxis(a))
		e.env[a.Name] = e.axes[len(e.axes)-1].values[a.Values[0]]
	}
	constraints := slices.DeleteFunc(slices.Clone(f.Constraints), func(c Constraint) bool {
		return len(c.Kernels) > 0 && !slices.Contains(c.Kernels, kernel)
	})
	if len(constraints) == 0 { // do not compile derived values: they may name another kernel's parameters
		return nil, nil
	}
	if err := e.derive(f.Derived); err != nil {
		return nil, err
	}
	for _, c := range constraints {
		if err := e.constrain(c); err != nil {
			return nil, err
		}
	}
	return []search.Rule{e.broken}, nil
}

type scope struct {
	axes    []typedValues
	env     map[string]any
	derived []named
	keep    []named
	vm      vm.VM
}

type named struct {
	name string
	code *vm.Program
}

type typedValues struct {
	name   string
	values map[ep.Value]any
}

func typedAxis(a search.Axis) typedValues {
	out := typedValues{a.Name, make(map[ep.Value]any, len(a.Values))}
	words := slices.ContainsFunc(a.Values, func(v ep.Value) bool {
		_, ok := v.Int()
		return !ok
	})
	for _, v := range a.Values {
		if n, _ := v.Int(); words {
			out.values[v] = string(v)
		} else {
			out.values[v] = n
		}
	}
	return out
}

func (e *scope) derive(ds []Derived) error {
	for _, d := range ds {
		if _, taken := e.env[d.Name]; taken {
			return fmt.Errorf("space: derived %s: a parameter or an earlier value has this name; use another", d.Name)
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
		e.derived = append(e.derived, named{d.Name, code})
	}
	return nil
}

func (e *scope) constrain(c Constraint) error {
	name := cmp.Or(c.Name, c.Keep)
	code, err := expr.Compile(c.Keep, expr.Env(e.env), expr.AsBool())
	if err != nil {
		return fmt.Errorf("space: constraint %s: %s", name, firstLine(err))
	}
	e.keep = append(e.keep, named{name, code})
	return nil
}

// broken implements search.Rule. It returns the name of the first constraint that is false, or of the first expression
// that cannot be evaluated.
func (e *scope) broken(cfg ep.Config) string {
	for _, a := range e.axes {
		e.env[a.name] = a.values[cfg.Values[a.name]]
	}
	for _, d := range e.derived {
		v, err := e.vm.Run(d.code, e.env)
		if err != nil {
			return d.name
		}
		e.env[d.name] = v
	}
	for _, k := range e.keep {
		out, err := e.vm.Run(k.code, e.env)
		if keep, ok := out.(bool); err != nil || !ok || !keep {
			return k.name
		}
	}
	return ""
}
