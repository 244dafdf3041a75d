package declare

import (
	"cmp"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// Kernels lists the kernels that one process can run on all GPUs of a host, with the functions
// that check their configs. It needs no GPU, so that a host without one can plan.
func Kernels() []kernels.Kernel { return declared(Declarations()) }

// AllKernels lists Kernels and HostKernels.
func AllKernels() []kernels.Kernel { return declared(allDeclarations()) }

func declared(all []Declaration) []kernels.Kernel {
	out := make([]kernels.Kernel, len(all))
	for i, f := range all {
		out[i] = f.Kernel
		out[i].Check = f.Check
		if f.Kernel.Work.Library == "" {
			out[i].Work = Work(f.Kernel.Op)
		}
		if f.Kernel.Op == ep.Combine {
			out[i].CheckPair = pairCheck(f, all)
		}
	}
	return out
}

// Work lists the work that is part of the measured times in layout expert. Dispatch begins
// with BF16 tokens and ends with rows in the order of their experts. Combine goes the other way.
func Work(op ep.Op) ep.Work {
	if op == ep.Combine {
		return ep.Work{Library: "epbench", Layout: "expert", Sum: "gated", Inside: []string{"reduction"}}
	}
	return ep.Work{Library: "epbench", Layout: "expert", Inside: []string{"cast", "counts", "expansion"}}
}

// Check returns why a config is illegal, nil if it is legal. A legal config sets exactly the
// declared parameters.
func (f Declaration) Check(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := cmp.Or(f.Kernel.CheckLayout(p.Layout), kernels.CheckNames(c, f.Kernel.Params)); err != nil {
		return err
	}
	return f.Kernel.Check(m, p, c)
}

// pairCheck returns the legality check of pairs with a combine: the combine may follow only
// dispatches of the same state, and its own declaration may have further conditions.
func pairCheck(f Declaration, all []Declaration) func(dispatch, combine ep.Config) error {
	return func(dispatch, combine ep.Config) error {
		d, err := findIn(all, dispatch.Kernel)
		if err != nil {
			return err
		}
		if s := f.StateOf(combine); !s.serves(d.StateOf(dispatch)) {
			return fmt.Errorf("combine: %s reads memory of the state %s, which %s does not write; pair it with a kernel that does",
				f.Kernel.Name, s.Name, dispatch.Kernel)
		}
		if f.Kernel.CheckPair == nil {
			return nil
		}
		return f.Kernel.CheckPair(dispatch, combine)
	}
}

// Find returns the declaration of a kernel, also of a kernel that crosses hosts.
func Find(name string) (Declaration, error) { return findIn(allDeclarations(), name) }

func findIn(all []Declaration, name string) (Declaration, error) {
	for _, f := range all {
		if f.Kernel.Name == name {
			return f, nil
		}
	}
	return Declaration{}, fmt.Errorf("kernel: the CUDA backend has no kernel called %q", name)
}
