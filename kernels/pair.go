package kernels

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// PairOf joins a dispatch and a combine. Parameters get the prefixes of ep.Join.
func PairOf(d, c Kernel) Kernel {
	k := Kernel{
		Name: d.Name + "+" + c.Name,
		Op:   ep.Pair,
		Doc:  d.Doc + " Then: " + c.Doc,
	}
	k.Layouts = slices.DeleteFunc(ep.Layouts(), func(l ep.Layout) bool { return !d.Serves(l) || !c.Serves(l) })
	for _, q := range d.Params {
		q.Name = "dispatch." + q.Name
		k.Params = append(k.Params, q)
	}
	for _, q := range c.Params {
		q.Name = "combine." + q.Name
		k.Params = append(k.Params, q)
	}
	k.Check = func(m ep.Machine, p ep.Problem, cfg ep.Config) error {
		dc, cc, err := ep.Split(cfg)
		if err != nil {
			return err
		}
		if err := d.Check(m, p, dc); err != nil {
			return fmt.Errorf("dispatch: %w", err)
		}
		if err := c.Check(m, p, cc); err != nil {
			return fmt.Errorf("combine: %w", err)
		}
		if c.CheckPair == nil {
			return nil
		}
		return c.CheckPair(dc, cc)
	}
	k.Default = func(m ep.Machine, p ep.Problem) ep.Config {
		return ep.Join(d.DefaultConfig(m, p), c.DefaultConfig(m, p))
	}
	if d.Overlapped != nil && c.Overlapped != nil {
		k.Overlapped = func(cfg ep.Config) ep.Config {
			dc, cc, err := ep.Split(cfg)
			if err != nil {
				return cfg
			}
			return ep.Join(d.Overlapped(dc), c.Overlapped(cc))
		}
	}
	return k
}

// Of returns the kernels of an op. For ep.Pair it returns all pairs.
func Of(all []Kernel, op ep.Op) []Kernel {
	var out []Kernel
	if op != ep.Pair {
		for _, k := range all {
			if k.Op == op {
				out = append(out, k)
			}
		}
		return out
	}
	for _, d := range Of(all, ep.Dispatch) {
		for _, c := range Of(all, ep.Combine) {
			out = append(out, PairOf(d, c))
		}
	}
	return out
}

// For returns the kernels of a problem's op that serve its layout.
func For(all []Kernel, p ep.Problem) []Kernel {
	return slices.DeleteFunc(Of(all, p.Op), func(k Kernel) bool { return !k.Serves(p.Layout) })
}

// Find returns the kernel of an op that has this name.
func Find(all []Kernel, op ep.Op, name string) (Kernel, error) {
	if op == ep.Pair {
		return findPair(all, name)
	}
	for _, k := range all {
		if k.Op == op && k.Name == name {
			return k, nil
		}
	}
	return Kernel{}, noKernelCalled(op, name)
}

func findPair(all []Kernel, name string) (Kernel, error) {
	first, second, _ := strings.Cut(name, "+")
	d, missing := Find(all, ep.Dispatch, first)
	c, none := Find(all, ep.Combine, second)
	if missing != nil || none != nil {
		return Kernel{}, noKernelCalled(ep.Pair, name)
	}
	return PairOf(d, c), nil
}

func noKernelCalled(op ep.Op, name string) error {
	return fmt.Errorf("kernel: no %s kernel called %q here", op, name)
}
