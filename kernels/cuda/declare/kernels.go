package declare

import (
	"fmt"
	"slices"
	"sync"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// Kernels lists the kernels that one process can run on all GPUs of a host. It needs no GPU.
func Kernels() []kernels.Kernel { return declared(Declarations()) }

// AllKernels lists Kernels and HostKernels. Callers must not change the parameters.
func AllKernels() []kernels.Kernel { return declared(everywhere()) }

// KernelsOver lists the kernels of a pack for ranks on `nodes` nodes. Callers must not change the parameters.
func KernelsOver(nodes int, m ep.Machine) []kernels.Kernel {
	if nodes > 1 {
		return HostKernels(m)
	}
	return declared(oneHost())
}

// HostKernels lists the kernels that cross hosts, with default values that fit the machine. Some programs know a kernel
// only from a worker's announcement, and launch it with the default values. So these values must fit.
func HostKernels(m ep.Machine) []kernels.Kernel {
	out := declared(HostDeclarations())
	for _, k := range out {
		fitted := Fitted(k, m, ep.Problem{})
		for i, q := range k.Params {
			k.Params[i].Default = fitted.Values[q.Name]
		}
	}
	return out
}

// Each list is made once. Users must not change it.
var (
	oneHost, overHosts = sync.OnceValue(Declarations), sync.OnceValue(HostDeclarations)
	everywhere         = sync.OnceValue(func() []Declaration { return slices.Concat(oneHost(), overHosts()) })
)

func declared(all []Declaration) []kernels.Kernel {
	out := make([]kernels.Kernel, len(all))
	for i, f := range all {
		out[i] = f.Kernel
		out[i].Check, out[i].Work = f.Check, workOf(f.Kernel)
		if f.Kernel.Op == ep.Combine {
			out[i].CheckPair = pairCheck(f, all)
		}
	}
	return out
}

func workOf(k kernels.Kernel) ep.Work {
	layout := append(k.Layouts, ep.LayoutExpert)[0].Kind()
	w := ep.Work{Library: "epbench", Layout: layout, Inside: []string{"cast", "counts", "expansion"}}
	switch {
	case k.Op == ep.Activation:
		w.Inside = w.Inside[:1]
	case k.Op == ep.Combine && layout == "rank":
		w.Sum, w.Inside = "plain", []string{"reduction"}
	case k.Op == ep.Combine:
		w.Sum, w.Inside = "gated", []string{"reduction"}
	case layout == "rank":
		w.Inside = w.Inside[:2]
	}
	return w
}

// pairCheck returns a function that checks whether the combine f can follow a dispatch. The state of f must be the
// dispatch's state or extend it, and f's own CheckPair must accept both configs.
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
func Find(name string) (Declaration, error) { return findIn(everywhere(), name) }

func findIn(all []Declaration, name string) (Declaration, error) {
	if at := slices.IndexFunc(all, func(f Declaration) bool { return f.Kernel.Name == name }); at >= 0 {
		return all[at], nil
	}
	return Declaration{}, fmt.Errorf("kernel: the CUDA backend has no kernel called %q", name)
}
