package spacefile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// Renamed returns the file with the present names of kernels that were renamed or have become
// configs of another kernel. rename converts a config that may leave out parameters. current
// converts a config that lacks only newer parameters.
func (f *File) Renamed(rename, current func(ep.Config) ep.Config) *File {
	if f == nil {
		return nil
	}
	out := *f
	out.Kernels, out.Constraints, out.required = map[string]map[string]Param{}, nil, nil
	for _, kernel := range slices.Sorted(maps.Keys(f.Kernels)) {
		now := rename(ep.Config{Kernel: kernel})
		if out.Kernels[now.Kernel] == nil {
			out.Kernels[now.Kernel] = map[string]Param{}
		}
		for name, v := range now.Values {
			out.merge(now.Kernel, name, Param{Values: Values{v}})
		}
		for name, q := range f.Kernels[kernel] {
			out.merge(now.Kernel, name, q)
		}
	}
	for _, c := range f.Constraints {
		out.Constraints = append(out.Constraints, c.renamed(rename)...)
	}
	for _, c := range f.required {
		out.required = append(out.required, current(c))
	}
	return &out
}

// merge adds the values of a parameter to those that the file already has.
func (f *File) merge(kernel, name string, q Param) {
	for _, v := range f.Kernels[kernel][name].Values {
		if !slices.Contains(q.Values, v) {
			q.Values = append(slices.Clip(q.Values), v)
		}
	}
	f.Kernels[kernel][name] = q
}

// renamed returns the constraint for the present names of its kernels. For a former kernel it applies
// only to configs with the values that the former kernel stands for.
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

// literal spells a value in an expression.
func literal(v ep.Value) string {
	if _, number := v.Int(); number {
		return string(v)
	}
	return fmt.Sprintf("%q", string(v))
}

// With returns the file with values for one more parameter. f may be nil.
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
