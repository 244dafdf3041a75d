package workloads

// kinds lists the distributions in the order that help prints them. A new one
// is a file of its own and a line here.
func kinds() []kind {
	return []kind{
		uniformKind,
		zipfKind,
	}
}

// modifiers lists what may follow a distribution, in canonical order.
func modifiers() []kind {
	return []kind{
		softmaxKind,
		sigmoidKind,
	}
}

// aims are the statistics of the expected load that a distribution can be
// asked to have.
var aims = []param{
	{name: "gini", min: 0.01, max: 0.95},
	{name: "maxmean", min: 1.01, max: 1000},
	{name: "effective", min: 1.5, max: 65536},
}

func aimParam(name string) param {
	for _, p := range aims {
		if p.name == name {
			return p
		}
	}
	panic("workloads: unknown aim " + name)
}
