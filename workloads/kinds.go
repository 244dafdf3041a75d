package workloads

import (
	"fmt"
	"strings"
)

func kinds() []kind {
	return []kind{
		uniformKind,
		balancedKind,
		groupedKind,
		zipfKind,
		powerlawKind,
		lognormalKind,
		dirichletKind,
		khotKind,
		hotrankKind,
		oneKind,
		localKind,
		remoteKind,
		all2oneKind,
		roundrobinKind,
		maskedKind,
		raggedKind,
		traceKind,
	}
}

// modifiers lists the modifiers in the order in which they apply.
func modifiers() []kind {
	return []kind{
		driftKind,
		raggedKind,
		maskedKind,
		softmaxKind,
		sigmoidKind,
		eplbKind,
	}
}

type statistic struct {
	param
	of func(load []float64) float64
}

var statistics = []statistic{
	{param{name: "gini", min: 0.01, max: 0.95}, gini},
	{param{name: "maxmean", min: 1.01, max: 1000}, maxMean},
	{param{name: "effective", min: 1.5, max: 65536}, func(load []float64) float64 { return exp(entropy(load)) }},
}

func findStatistic(name string) statistic {
	for _, a := range statistics {
		if a.name == name {
			return a
		}
	}
	panic("workloads: unknown statistic " + name)
}

// Kind describes a distribution or a modifier for help texts.
type Kind struct {
	Name string
	Args string // with bounds and defaults
	Doc  string
}

// Kinds lists the distributions.
func Kinds() []Kind { return describe(kinds()) }

// Modifiers lists the modifiers.
func Modifiers() []Kind { return describe(modifiers()) }

func describe(ks []kind) []Kind {
	out := make([]Kind, len(ks))
	for i, k := range ks {
		var args []string
		for _, p := range k.params {
			a := fmt.Sprintf("%s = %s", p.name, p.format(p.def))
			if p.open {
				a = p.name
			}
			args = append(args, fmt.Sprintf("%s (%s to %s)", a, p.format(p.min), p.format(p.max)))
		}
		if k.statistics != nil {
			args = append(args, "or, instead of the parameter, a statistic: "+strings.Join(k.statistics, "=, ")+"=")
		}
		if k.file {
			args = []string{"FILE"}
		}
		out[i] = Kind{k.name, strings.Join(args, "; "), k.doc}
	}
	return out
}
