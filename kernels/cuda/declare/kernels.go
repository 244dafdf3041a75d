package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// Kernels lists the CUDA kernels with their legality. It needs no GPU, so that
// a host without one can plan.
func Kernels() []kernels.Kernel { return declared(Declarations()) }

// everyKernel adds those of one process a GPU.
func AllKernels() []kernels.Kernel { return declared(everyFamily()) }

func declared(all []Declaration) []kernels.Kernel {
	out := make([]kernels.Kernel, len(all))
	for i, f := range all {
		out[i] = f.Kernel
		out[i].Check = f.Check
		if f.Kernel.Work.Library == "" {
			out[i].Work = Work(f.Kernel.Op)
		}
		if f.Kernel.Op == ep.Combine {
			out[i].Pairs = pairsWithin(f, all)
		}
	}
	return out
}

// Work declares what the times of our kernels for layout expert include. Dispatch begins with BF16 tokens
// and ends with rows in the order of their experts. Combine is the way back.
func Work(op ep.Op) ep.Work {
	if op == ep.Combine {
		return ep.Work{Library: "epbench", Layout: "expert", Sum: "gated", Inside: []string{"reduction"}}
	}
	return ep.Work{Library: "epbench", Layout: "expert", Inside: []string{"cast", "counts", "expansion"}}
}

// check is the family's legality. A config must set exactly the declared
// parameters.
func (f Declaration) Check(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := cmp.Or(f.Kernel.CheckLayout(p.Layout), kernels.CheckNames(c, f.Kernel.Params)); err != nil {
		return err
	}
	return f.Kernel.Check(m, p, c)
}

// pairsWithin lets a combine follow only dispatches of the same state, and adds
// what the family itself asks for.
func pairsWithin(f Declaration, all []Declaration) func(dispatch, combine ep.Config) error {
	return func(dispatch, combine ep.Config) error {
		d, err := findFamily(all, dispatch.Kernel)
		if err != nil {
			return err
		}
		if !f.State.serves(d.State) {
			return fmt.Errorf("combine: %s reads the %s state, which %s does not leave; pair it with a kernel that does",
				f.Kernel.Name, f.State.Name, dispatch.Kernel)
		}
		if f.Kernel.Pairs == nil {
			return nil
		}
		return f.Kernel.Pairs(dispatch, combine)
	}
}

// find returns the declaration of a kernel, of those over hosts too.
func Find(name string) (Declaration, error) { return findFamily(everyFamily(), name) }

func findFamily(all []Declaration, name string) (Declaration, error) {
	for _, f := range all {
		if f.Kernel.Name == name {
			return f, nil
		}
	}
	return Declaration{}, fmt.Errorf("kernel: the CUDA backend has none called %q", name)
}
