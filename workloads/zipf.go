package workloads

// zipfKind draws experts with the same probabilities as Mooncake's benchmark. Mooncake adds Gumbel noise to the
// logarithms of the weights, and takes the top-k. This equals drawing k experts one by one without replacement.
var zipfKind = kind{
	name:       "zipf",
	doc:        "experts are drawn one by one; the j-th most popular has weight 1/j^a",
	params:     []param{{name: "a", min: 0, max: 8, def: 1}},
	statistics: []string{"gini", "maxmean", "effective"},
	build: func(a args, r *recipe) error {
		f := a.loadLaw(func(s drawRequest, x float64) ([]float64, error) { return zipfWeights(s.Experts, x), nil })
		f.urn = true
		f.law(r)
		return nil
	},
}

func zipfWeights(n int, a float64) []float64 {
	w := make([]float64, n)
	for j := range w {
		w[j] = pow(float64(j+1), -a)
	}
	return w
}
