package kernels

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// SpellHooks spells hooks (parameters that the caller sets) as name=value,name=value, sorted and without defaults.
func SpellHooks(all []Kernel, given map[string][]ep.Value) string {
	var out []string
	for _, k := range all {
		for _, q := range k.Params {
			if v := given[q.Name]; q.Class == Hook && len(v) == 1 && v[0] != q.Default {
				out = append(out, q.Name+"="+string(v[0]))
			}
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

// ParseHooks reads the spelling of SpellHooks, and ignores parts that do not have the form name=value.
func ParseHooks(hooks string) map[string][]ep.Value {
	out := map[string][]ep.Value{}
	for _, part := range strings.Split(hooks, ",") {
		if name, value, ok := strings.Cut(part, "="); ok {
			out[name] = []ep.Value{ep.Value(value)}
		}
	}
	return out
}

// WithHooks returns kernels for which only the given values of hooks are legal. If some kernels of an op have a hook,
// WithHooks drops the op's kernels that do not have it.
func WithHooks(all []Kernel, given map[string][]ep.Value) []Kernel {
	wanted := map[ep.Op]map[string]ep.Value{}
	for _, k := range all {
		for _, q := range k.Params {
			if v := given[q.Name]; q.Class == Hook && len(v) == 1 {
				if wanted[k.Op] == nil {
					wanted[k.Op] = map[string]ep.Value{}
				}
				wanted[k.Op][q.Name] = v[0]
			}
		}
	}
	if len(wanted) == 0 {
		return all
	}
	var out []Kernel
	for _, k := range all {
		if k.declares(wanted[k.Op]) {
			out = append(out, k.hooked(wanted[k.Op]))
		}
	}
	return out
}

func (k Kernel) declares(values map[string]ep.Value) bool {
	for name := range values {
		if !slices.ContainsFunc(k.Params, func(q Param) bool { return q.Name == name }) {
			return false
		}
	}
	return true
}

func (k Kernel) hooked(values map[string]ep.Value) Kernel {
	if len(values) == 0 {
		return k
	}
	original := k
	k.Params = slices.Clone(k.Params)
	for i, q := range k.Params {
		if v, ok := values[q.Name]; ok {
			k.Params[i].Default = v
			k.Work.Inside = slices.DeleteFunc(slices.Clone(k.Work.Inside), func(part string) bool { return part == q.Outside[v] })
		}
	}
	with := func(c ep.Config) ep.Config {
		for name, v := range values {
			c = c.With(name, v)
		}
		return c
	}
	k.Default = func(m ep.Machine, p ep.Problem) ep.Config { return with(original.DefaultConfig(m, p)) }
	if original.Split != nil {
		k.Split = func(m ep.Machine, p ep.Problem) ep.Config { return with(original.Split(m, p)) }
	}
	if original.Starts != nil {
		k.Starts = func(m ep.Machine, p ep.Problem) []ep.Config {
			out := original.Starts(m, p)
			for i, c := range out {
				out[i] = with(c)
			}
			return out
		}
	}
	k.Check = func(m ep.Machine, p ep.Problem, c ep.Config) error {
		for name, v := range values {
			if c.Values[name] != v {
				return fmt.Errorf("%s: is %s, but the caller needs %s", name, c.Values[name], v)
			}
		}
		return original.Check(m, p, c)
	}
	return k
}
