package kernels

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// Default returns the default config of the first kernel that can run a problem on at most maxSMs SMs (0: no limit).
func Default(all []Kernel, m ep.Machine, p ep.Problem, maxSMs int) (ep.Config, error) {
	var first error
	for _, k := range For(all, p) {
		c := k.DefaultWithin(m, p, maxSMs)
		err := k.Check(m, p, c)
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = fmt.Errorf("--op %s: the default of %s cannot run here: %w", p.Op, k.Name, err)
		}
	}
	if first == nil {
		first = NoKernel(all, p)
	}
	return ep.Config{}, first
}

// NoKernel returns the error about a problem that no kernel serves.
func NoKernel(all []Kernel, p ep.Problem) error {
	of := Of(all, p.Op)
	if len(of) == 0 {
		return fmt.Errorf("--op: this backend has no %s kernel", p.Op)
	}
	served := slices.DeleteFunc(ep.Layouts(), func(l ep.Layout) bool {
		return !slices.ContainsFunc(of, func(k Kernel) bool { return k.Serves(l) })
	})
	return fmt.Errorf("--layout: no %s kernel of this backend serves %s; use one of %s", p.Op, p.Layout, join(served, ep.Layout.String))
}

// ParseConfig reads "default", an id, or parameters: "dispatch:algo=dedup,sms=64". Missing parameters get their
// defaults.
func ParseConfig(all []Kernel, m ep.Machine, p ep.Problem, s string) (ep.Config, error) {
	kernel, values, full := strings.Cut(s, ":")
	switch {
	case ep.IsID(s):
		return byID(all, m, p, s)
	case !full && s != "default" && !strings.Contains(s, "="):
		return ep.Config{}, fmt.Errorf("%.60q is no config: write an id (d7f2), the parameters that differ from the default (algo=dedup sms=64), a kernel with parameters (dispatch:algo=dedup,sms=64), or a row of a run (RUN#ROW)", s)
	case !full:
		dflt, err := Default(all, m, p, 0)
		if err != nil || s == "default" {
			return dflt, err
		}
		kernel, values = dflt.Kernel, s
	}
	names := strings.FieldsFunc(values, func(r rune) bool { return r == ' ' || r == ',' })
	c, err := ep.ParseConfig(kernel + ":" + strings.Join(names, ","))
	if err != nil {
		return ep.Config{}, err
	}
	c = Rename(all, c)
	k, err := Find(all, p.Op, c.Kernel)
	if err != nil {
		return ep.Config{}, err
	}
	return k.complete(m, p, c)
}

func (k Kernel) complete(m ep.Machine, p ep.Problem, c ep.Config) (ep.Config, error) {
	var unknown, wrong []string
	for _, name := range c.Names() {
		at := slices.IndexFunc(k.Params, func(q Param) bool { return q.Name == name })
		if at < 0 {
			unknown = append(unknown, name)
		} else if bad := k.Params[at].refuse(c.Values[name]); bad != "" {
			wrong = append(wrong, bad)
		}
	}
	if unknown != nil {
		wrong = append(wrong, fmt.Sprintf("%s has no parameter %s; it has %s", k.Name, strings.Join(unknown, ", "),
			join(k.Params, func(q Param) string { return q.Name })))
	}
	if wrong != nil {
		return ep.Config{}, errors.New(strings.Join(wrong, "; "))
	}
	out := k.DefaultConfig(m, p)
	if k.Splits(c) {
		out = k.Split(m, p)
	}
	for name, v := range c.Values {
		out = out.With(name, v)
	}
	return out, nil
}

// refuse returns why a value is wrong for all machines: an unknown word, or a word in place of a number. It returns ""
// for any number.
func (q Param) refuse(v ep.Value) string {
	numbers := 0
	for _, known := range q.Values {
		if _, ok := known.Int(); ok {
			numbers++
		}
	}
	_, number := v.Int()
	switch {
	case numbers == 0 && len(q.Values) > 0 && !slices.Contains(q.Values, v):
		return fmt.Sprintf("%s: unknown %q, use one of %s", q.Name, v, join(q.Values, func(v ep.Value) string { return string(v) }))
	case numbers == len(q.Values) && numbers > 0 && !number:
		return fmt.Sprintf("%s: %q is no number", q.Name, v)
	}
	return ""
}

func join[T any](of []T, spell func(T) string) string {
	out := make([]string, len(of))
	for i, v := range of {
		out[i] = spell(v)
	}
	return strings.Join(out, ", ")
}

func byID(all []Kernel, m ep.Machine, p ep.Problem, id string) (ep.Config, error) {
	if p.Op == ep.Pair {
		return pairByID(all, m, p, id)
	}
	var found []ep.Config
	for _, k := range For(all, p) {
		dflt := k.DefaultConfig(m, p)
		Each(dflt, k.Params, func(c ep.Config) {
			if c.HasID(id) {
				found = append(found, ep.Config{Kernel: c.Kernel, Values: maps.Clone(c.Values)})
			}
		})
	}
	switch len(found) {
	case 0:
		return ep.Config{}, fmt.Errorf("no %s config here has the id %s; spell it kernel:name=value,name=value", p.Op, id)
	case 1:
		return found[0], nil
	}
	return ep.Config{}, fmt.Errorf("%d configs have the id %s; use one of %s", len(found), id,
		join(found, func(c ep.Config) string { return c.LongID() + " (" + c.Key() + ")" }))
}

// Each calls `visit` with every combination of the parameters' declared values. To keep a config, `visit` must clone
// its values.
func Each(c ep.Config, params []Param, visit func(ep.Config)) {
	each(ep.Config{Kernel: c.Kernel, Values: maps.Clone(c.Values)}, params, visit)
}

func each(c ep.Config, params []Param, visit func(ep.Config)) {
	if len(params) == 0 {
		visit(c)
		return
	}
	q := params[0]
	own := c.Values[q.Name]
	values := q.Values
	if !slices.Contains(values, own) {
		values = append(slices.Clip(values), own)
	}
	for _, v := range values {
		c.Values[q.Name] = v
		each(c, params[1:], visit)
	}
	c.Values[q.Name] = own
}

func pairByID(all []Kernel, m ep.Machine, p ep.Problem, id string) (ep.Config, error) {
	var half [2]ep.Config
	ids := strings.Split(id, "+")
	if len(ids) != 2 {
		return ep.Config{}, fmt.Errorf("the id of a pair joins the ids of its dispatch and its combine, as in d7f2+a1b3; %s does not", id)
	}
	for i, op := range []ep.Op{ep.Dispatch, ep.Combine} {
		p.Op = op
		var err error
		if half[i], err = byID(all, m, p, ids[i]); err != nil {
			return ep.Config{}, err
		}
	}
	return ep.Join(half[0], half[1]), nil
}
