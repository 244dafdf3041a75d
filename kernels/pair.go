package kernels

import (
	"fmt"

	"github.com/epbench/epbench/tune/plan"
)

// PairOf composes a dispatch and a combine kernel into one candidate for op
// pair. Its parameters carry the prefixes of plan.Join.
func PairOf(d, c Kernel) Kernel {
	k := Kernel{
		Name: d.Name + "+" + c.Name,
		Op:   plan.Pair,
		Doc:  d.Doc + " Then: " + c.Doc,
	}
	for _, q := range d.Params {
		q.Name = "dispatch." + q.Name
		k.Params = append(k.Params, q)
	}
	for _, q := range c.Params {
		q.Name = "combine." + q.Name
		k.Params = append(k.Params, q)
	}
	k.Check = func(m plan.Machine, p plan.Problem, cfg plan.Config) error {
		dc, cc, err := plan.Split(cfg)
		if err != nil {
			return err
		}
		if err := d.Check(m, p, dc); err != nil {
			return fmt.Errorf("dispatch: %w", err)
		}
		if err := c.Check(m, p, cc); err != nil {
			return fmt.Errorf("combine: %w", err)
		}
		if c.Pairs == nil {
			return nil
		}
		return c.Pairs(dc, cc)
	}
	k.Default = func(m plan.Machine, p plan.Problem) plan.Config {
		return plan.Join(d.DefaultConfig(m, p), c.DefaultConfig(m, p))
	}
	if d.Beside != nil && c.Beside != nil {
		k.Beside = func(cfg plan.Config) plan.Config {
			dc, cc, err := plan.Split(cfg)
			if err != nil {
				return cfg
			}
			return plan.Join(d.Beside(dc), c.Beside(cc))
		}
	}
	return k
}

// Of lists the kernels of an op; for pair it is every dispatch with every
// combine.
func Of(all []Kernel, op plan.Op) []Kernel {
	var out []Kernel
	if op != plan.Pair {
		for _, k := range all {
			if k.Op == op {
				out = append(out, k)
			}
		}
		return out
	}
	for _, d := range Of(all, plan.Dispatch) {
		for _, c := range Of(all, plan.Combine) {
			out = append(out, PairOf(d, c))
		}
	}
	return out
}

// Find looks a kernel up by name.
func Find(all []Kernel, op plan.Op, name string) (Kernel, error) {
	for _, k := range Of(all, op) {
		if k.Name == name {
			return k, nil
		}
	}
	return Kernel{}, fmt.Errorf("kernel: no %s kernel called %q here", op, name)
}
