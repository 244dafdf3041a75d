package measure

import (
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
)

// announcedPoints bounds the points looked at for what to announce; larger
// spaces are looked at in steps.
const announcedPoints = 20_000

// announce tells a backend that compiles which binaries the search may need,
// the default's first.
func (r *Runner) announce() {
	if b, ok := r.Backend.(kernels.Forewarned); ok && !r.Announced {
		p := r.Workload.Problem
		b.Ahead(p, append([]ep.Config{r.Config(r.Default)}, Compiled(r.Backend.Kernels(), p.Op, r.Space)...))
	}
}

// Compiled lists one config of a space for each combination of compiled-in
// values.
func Compiled(all []kernels.Kernel, op ep.Op, space *search.Space) []ep.Config {
	compiled := compiledIn(all, op)
	var configs []ep.Config
	seen := map[string]bool{}
	for i := 0; i < space.Len(); i += 1 + space.Len()/announcedPoints {
		c := space.Config(i)
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
	return configs
}

// compiledIn lists the compiled-in parameters of each kernel of an op.
func compiledIn(all []kernels.Kernel, op ep.Op) map[string][]string {
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
