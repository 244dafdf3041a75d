//go:build nvrtc

package compile

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// compileConfigs returns base, then configs that differ from base in compiled parameters. Parameters of the class Speed
// take every combination of values. The parameters of other classes change one at a time.
func compileConfigs(k kernels.Kernel, base ep.Config) []ep.Config {
	out := []ep.Config{base}
	for _, q := range k.Params {
		if q.Binding != kernels.Compile || q.Class != kernels.Speed {
			continue
		}
		for _, c := range slices.Clone(out) {
			for _, v := range q.Values {
				if v != base.Values[q.Name] {
					out = append(out, c.With(q.Name, v))
				}
			}
		}
	}
	for _, q := range k.Params {
		if q.Binding == kernels.Compile && q.Class != kernels.Speed {
			for _, v := range q.Values {
				out = append(out, base.With(q.Name, v))
			}
		}
	}
	return out
}

type compiled struct {
	declaration declare.Declaration
	config      ep.Config
	unit        sources.Unit
	def         bool
}

// variants returns a kernel's variants: configs that compile to different units. They include the starts of a search at
// reduced precision. The default config comes first. If the default is illegal, there are no variants.
func variants(f declare.Declaration, m ep.Machine, p ep.Problem) ([]compiled, error) {
	p.Layout = append(f.Kernel.Layouts, p.Layout)[0]
	base := f.Kernel.DefaultConfig(m, p)
	if f.Check(m, p, base) != nil {
		return nil, nil
	}
	configs := compileConfigs(f.Kernel, base)
	if p.Precision = ep.Reduced; f.Kernel.Starts != nil {
		configs = append(configs, f.Kernel.Starts(m, p)...)
	}
	var out []compiled
	seen := map[string]bool{}
	for _, c := range configs {
		if f.Check(m, p, c) != nil {
			continue
		}
		v, err := f.Unit(p, c)
		if err != nil {
			return nil, err
		}
		if key := fmt.Sprint(v); !seen[key] {
			seen[key] = true
			out = append(out, compiled{f, c, v, c.Key() == base.Key()})
		}
	}
	return out, nil
}

// machine is a GPU on which the whole space of the declared values is legal.
var machine = ep.Machine{Backend: "cuda", Arch: "sm_90", SMs: 132, GPUs: 8, Link: "nv18"}

func problem(op ep.Op, d ep.DType) ep.Problem {
	return ep.Problem{Op: op, Mode: ep.Graph, Ranks: 8, Nodes: 1, Hidden: 7168, Experts: 256, TopK: 8,
		Tokens: 128, MaxTokens: 128, Dispatch: d, Combine: ep.BF16}
}
