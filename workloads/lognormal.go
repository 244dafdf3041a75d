package workloads

var lognormalKind = kind{
	name:   "lognormal",
	doc:    "loads are the quantiles of a log-normal with standard deviation sigma of the logarithm",
	params: []param{{name: "sigma", min: 0, max: 5, def: 0.5}},
	aims:   []string{"gini", "maxmean", "effective"},
	build: func(a args, r *recipe) error {
		r.law = family{load: lognormal, param: param{name: "sigma", max: 5}, x: a.v[0], aim: a.aim}
		return nil
	},
}

// lognormal takes the middle quantile of each of n equal parts, so that the
// shape does not depend on luck.
func lognormal(s site, sigma float64) ([]float64, error) {
	load := make([]float64, s.Experts)
	for j := range load {
		load[j] = exp(sigma * quantile((float64(j)+0.5)/float64(s.Experts)))
	}
	return load, nil
}
