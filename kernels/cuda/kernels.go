package cuda

import (
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// Kernels lists what the CUDA backend can sweep, with legality, for planning
// on hosts without a GPU.
func Kernels() []kernels.Kernel {
	all := families()
	out := make([]kernels.Kernel, len(all))
	for i, f := range all {
		out[i] = f.kernel
		out[i].Check = f.check
		if f.kernel.Op == ep.Combine {
			out[i].Pairs = pairsWithin(f, all)
		}
	}
	return out
}

// check is the family's legality, once c is known to set exactly the declared
// parameters.
func (f family) check(m ep.Machine, p ep.Problem, c ep.Config) error {
	known := map[string]bool{}
	for _, q := range f.kernel.Params {
		known[q.Name] = true
		if _, ok := c.Values[q.Name]; !ok {
			return fmt.Errorf("%s: not set, %s takes %s", q.Name, f.kernel.Name, q.Doc)
		}
	}
	for _, name := range c.Names() {
		if !known[name] {
			return fmt.Errorf("%s: %s has no such parameter", name, f.kernel.Name)
		}
	}
	return f.kernel.Check(m, p, c)
}

// pairsWithin lets a combine follow only dispatches that leave their tokens
// in the state it reads, and what the family itself asks for besides.
func pairsWithin(f family, all []family) func(dispatch, combine ep.Config) error {
	return func(dispatch, combine ep.Config) error {
		d, err := findFamily(all, dispatch.Kernel)
		if err != nil {
			return err
		}
		if d.state.name != f.state.name {
			return fmt.Errorf("combine: %s reads the %s state, which %s does not leave; pair it with a kernel that does",
				f.kernel.Name, f.state.name, dispatch.Kernel)
		}
		if f.kernel.Pairs == nil {
			return nil
		}
		return f.kernel.Pairs(dispatch, combine)
	}
}

func findFamily(all []family, name string) (family, error) {
	for _, f := range all {
		if f.kernel.Name == name {
			return f, nil
		}
	}
	return family{}, fmt.Errorf("kernel: the CUDA backend has none called %q", name)
}
