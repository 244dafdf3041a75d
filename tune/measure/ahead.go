package measure

import (
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/plan"
)

// foretellPoints bounds the points looked at for what to foretell; larger
// spaces are looked at in steps.
const foretellPoints = 20_000

// foretell tells a backend that compiles which binaries the search may need:
// the default and one config for each combination of compiled-in values.
func (r *Runner) foretell() {
	b, ok := r.Backend.(kernels.Forewarned)
	if !ok {
		return
	}
	compiled := compiledIn(r.Backend.Kernels(), r.Workload.Problem.Op)
	configs := []plan.Config{r.Config(r.Default)}
	seen := map[string]bool{}
	for i := 0; i < r.Space.Len(); i += 1 + r.Space.Len()/foretellPoints {
		c := r.Space.Config(i)
		var key strings.Builder
		key.WriteString(c.Kernel)
		for _, name := range compiled[c.Kernel] {
			key.WriteString("|" + string(c.Values[name]))
		}
		if !seen[key.String()] {
			seen[key.String()] = true
			configs = append(configs, c)
		}
	}
	b.Ahead(r.Workload.Problem, configs)
}

// compiledIn lists the compiled-in parameters of each kernel of an op.
func compiledIn(all []kernels.Kernel, op plan.Op) map[string][]string {
	out := map[string][]string{}
	for _, k := range kernels.Of(all, op) {
		for _, q := range k.Params {
			if q.Binding == kernels.Compile {
				out[k.Name] = append(out[k.Name], q.Name)
			}
		}
	}
	return out
}
