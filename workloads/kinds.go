package workloads

// kinds lists the distributions in the order that help prints them. A new one
// is a file of its own and a line here.
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

// modifiers lists what may follow a distribution, in canonical order.
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

// aim is a statistic of the expected load that a distribution can be asked to
// have, with the bounds of its target.
type aim struct {
	param
	of func(load []float64) float64
}

var aims = []aim{
	{param{name: "gini", min: 0.01, max: 0.95}, gini},
	{param{name: "maxmean", min: 1.01, max: 1000}, maxMean},
	{param{name: "effective", min: 1.5, max: 65536}, func(load []float64) float64 { return exp(entropy(load)) }},
}

func findAim(name string) aim {
	for _, a := range aims {
		if a.name == name {
			return a
		}
	}
	panic("workloads: unknown aim " + name)
}
