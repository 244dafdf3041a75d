package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// kernel converts the declaration to a kernels.Kernel. Its Check evaluates the declared rules.
func (d KernelDecl) kernel() (kernels.Kernel, error) {
	if _, err := ep.ParseOp(string(d.Op)); err != nil || d.Op == ep.Pair {
		return kernels.Kernel{}, fmt.Errorf("kernel %q: op must be dispatch, combine or layer, not %q", d.Name, d.Op)
	}
	if err := d.Work.Validate(); err != nil {
		return kernels.Kernel{}, fmt.Errorf("kernel %q, work: %w", d.Name, err)
	}
	if err := d.checkWords(); err != nil {
		return kernels.Kernel{}, err
	}
	programs := make([]*vm.Program, len(d.Rules))
	for i, r := range d.Rules {
		p, err := expr.Compile(r.Expr, expr.AsBool())
		if err != nil {
			return kernels.Kernel{}, fmt.Errorf("kernel %q, rule %q: %w", d.Name, r.Expr, err)
		}
		programs[i] = p
	}
	layouts := kernels.Kernel{Name: d.Name, Layouts: d.Layouts}
	check := func(m ep.Machine, p ep.Problem, c ep.Config) error {
		if err := layouts.CheckLayout(p.Layout); err != nil {
			return err
		}
		vars := ruleVars(m, p, c)
		for i, r := range d.Rules {
			ok, err := expr.Run(programs[i], vars)
			if err != nil {
				return fmt.Errorf("rule %q: %w", r.Expr, err)
			}
			if ok != true {
				return fmt.Errorf("%s (%s)", r.Reason, r.Expr)
			}
		}
		return nil
	}
	return kernels.Kernel{Name: d.Name, Op: d.Op, Doc: d.Doc, Params: d.Params, Work: d.Work, Layouts: d.Layouts, Check: check, CheckPair: d.checkPair()}, nil
}

// checkWords refuses names and values that cannot stand in a config's text.
func (d KernelDecl) checkWords() error {
	if strings.Contains(d.Name, "+") {
		return fmt.Errorf("kernel %q: a + joins the kernels of a pair; use another character", d.Name)
	}
	seen := ep.Config{Kernel: d.Name, Values: map[string]ep.Value{}}
	for _, p := range d.Params {
		if _, twice := seen.Values[p.Name]; twice {
			return fmt.Errorf("kernel %q, param %q: declared twice", d.Name, p.Name)
		}
		if p.Name == "problem" || p.Name == "machine" {
			return fmt.Errorf("kernel %q, param %q: rules have a variable of this name; use another name", d.Name, p.Name)
		}
		if len(p.Values) == 0 {
			return fmt.Errorf("kernel %q, param %q: values is empty; list at least the default", d.Name, p.Name)
		}
		for _, v := range append(slices.Clone(p.Values), p.Default) {
			seen.Values[p.Name] = v
			if _, err := ep.ParseConfig(seen.Key()); err != nil {
				return fmt.Errorf("kernel %q, param %q, value %q: names and values are 1 to 64 of a-z, 0-9, _ . + -", d.Name, p.Name, v)
			}
		}
	}
	if _, err := ep.ParseConfig(seen.Key()); err != nil || d.Name == "" {
		return fmt.Errorf("kernel %q: a name is 1 to 64 of a-z, 0-9, _ . -", d.Name)
	}
	return nil
}

// checkPair returns a check that refuses dispatch kernels outside d.Accepts. It returns nil if d accepts all of them.
func (d KernelDecl) checkPair() func(dispatch, combine ep.Config) error {
	if len(d.Accepts) == 0 {
		return nil
	}
	return func(dispatch, _ ep.Config) error {
		if !slices.Contains(d.Accepts, dispatch.Kernel) {
			return fmt.Errorf("%s cannot follow %s", d.Name, dispatch.Kernel)
		}
		return nil
	}
}

func ruleVars(m ep.Machine, p ep.Problem, c ep.Config) map[string]any {
	vars := map[string]any{"problem": jsonFields(p), "machine": jsonFields(m)}
	for name, v := range c.Values {
		vars[name] = string(v)
		if n, ok := v.Int(); ok {
			vars[name] = n
		}
	}
	return vars
}

var fieldCache sync.Map

// jsonFields returns a struct's fields by JSON name. Numbers become ints, because the operator % in rules needs ints.
func jsonFields(v any) map[string]any {
	if known, ok := fieldCache.Load(v); ok {
		return known.(map[string]any)
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // always marshals
	}
	out := map[string]any{}
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	for name, v := range out {
		if f, ok := v.(float64); ok {
			out[name] = int(f)
		}
	}
	fieldCache.Store(v, out)
	return out
}
