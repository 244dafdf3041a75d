package spacefile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// Renamed returns the file with the present names of its kernels. `rename` and `current` convert a config of an earlier
// build to present names. `rename` also accepts a config that lacks parameters.
func (f *File) Renamed(rename, current func(ep.Config) ep.Config) *File {
	if f == nil {
		return nil
	}
	out := *f
	out.Kernels, out.Constraints, out.required = map[string]map[string]Param{}, nil, nil
	for _, kernel := range slices.Sorted(maps.Keys(f.Kernels)) {
		now, params := renamedParams(kernel, f.Kernels[kernel], rename)
		if other, ok := out.Kernels[now]; ok {
			params = either(params, other)
		}
		out.Kernels[now] = params
	}
	for _, c := range f.Constraints {
		out.Constraints = append(out.Constraints, c.renamed(rename)...)
	}
	for _, c := range f.required {
		out.required = append(out.required, current(c))
	}
	return &out
}

func renamedParams(kernel string, given map[string]Param, rename func(ep.Config) ep.Config) (string, map[string]Param) {
	fixed := rename(ep.Config{Kernel: kernel})
	out := map[string]Param{}
	for name, v := range fixed.Values {
		out[name] = Param{Values: Values{v}}
	}
	for name, q := range given {
		values, now := q.Values, name
		q.Values = nil
		for _, v := range values {
			for n, v := range rename(ep.Config{Kernel: kernel, Values: map[string]ep.Value{name: v}}).Values {
				if _, ok := fixed.Values[n]; !ok || n == name {
					q.Values, now = append(q.Values, v), n
				}
			}
		}
		out[now] = q
	}
	return fixed.Kernel, out
}

func either(a, b map[string]Param) map[string]Param {
	out := map[string]Param{}
	for name, q := range a {
		other, ok := b[name]
		if !ok {
			continue
		}
		q.Values = slices.Clip(q.Values)
		for _, v := range other.Values {
			if !slices.Contains(q.Values, v) {
				q.Values = append(q.Values, v)
			}
		}
		out[name] = q
	}
	return out
}

// renamed returns constraints that mean the same for the present kernels. A kernel of an earlier build may now be a
// config of another kernel, with fixed values of some parameters. The constraint of the earlier kernel then applies
// only to configs with these values.
func (c Constraint) renamed(rename func(ep.Config) ep.Config) (out []Constraint) {
	own := c
	own.Kernels = nil
	for _, kernel := range c.Kernels {
		now := rename(ep.Config{Kernel: kernel})
		if now.Kernel == kernel {
			own.Kernels = append(own.Kernels, kernel)
			continue
		}
		former := Constraint{Name: c.Name, Keep: c.Keep, Kernels: []string{now.Kernel}}
		if former.Name == "" {
			former.Name = c.Keep
		}
		for _, name := range now.Names() {
			former.Keep = fmt.Sprintf("%s != %s || (%s)", name, literal(now.Values[name]), former.Keep)
		}
		out = append(out, former)
	}
	if len(own.Kernels) == len(c.Kernels) {
		return []Constraint{c}
	}
	if own.Kernels != nil {
		out = append(out, own)
	}
	return out
}

func literal(v ep.Value) string {
	if _, number := v.Int(); number {
		return string(v)
	}
	return fmt.Sprintf("%q", string(v))
}

// With returns a copy of the file with these values for a kernel's parameter. f may be nil.
func (f *File) With(kernel, name string, values Values) *File {
	out := File{Version: 1}
	if f != nil {
		out = *f
	}
	out.Kernels = maps.Clone(out.Kernels)
	if out.Kernels == nil {
		out.Kernels = map[string]map[string]Param{}
	}
	params := maps.Clone(out.Kernels[kernel])
	if params == nil {
		params = map[string]Param{}
	}
	params[name] = Param{Values: values}
	out.Kernels[kernel] = params
	return &out
}
