package workloads

var lognormalKind = kind{
	name:       "lognormal",
	doc:        "the loads of experts follow a log-normal distribution, at evenly spaced quantiles; sigma is the standard deviation of the load's logarithm",
	params:     []param{{name: "sigma", min: 0, max: 5, def: 0.5}},
	statistics: []string{"gini", "maxmean", "effective"},
	build:      func(a args, r *recipe) error { a.loadLaw(lognormal).law(r); return nil },
}

// lognormal uses quantiles, so that the loads of every seed have the same shape.
func lognormal(s drawRequest, sigma float64) ([]float64, error) {
	load := make([]float64, s.Experts)
	for j := range load {
		load[j] = exp(sigma * quantile((float64(j)+0.5)/float64(s.Experts)))
	}
	return load, nil
}
