package workloads

// zipf draws without replacement with chances proportional to 1/j^a, j being
// the popularity rank of an expert. The same law as top-k of log-weight plus
// Gumbel noise (Mooncake). Which expert is popular is the seed's choice.
type zipf struct {
	a   float64
	aim string
}

var zipfKind = kind{
	name:   "zipf",
	doc:    "top-k drawn one by one, the j-th most popular expert weighing 1/j^a",
	params: []param{{name: "a", min: 0, max: 8, def: 1}},
	aims:   []string{"gini", "maxmean", "effective"},
	build:  func(a args, r *recipe) error { r.law = zipf{a.v[0], a.aim}; return nil },
}

func (z zipf) prepare(s site) (filler, error) {
	a, err := z.solve(s)
	if err != nil {
		return nil, err
	}
	return eachToken(newUrn(scatter(zipfWeights(s.Experts, a), s.seed)).draw), nil
}

func (z zipf) solve(s site) (float64, error) {
	if z.aim == "" {
		return z.a, nil
	}
	return solve(z.aim, z.a, zipfKind.params[0], func(a float64) ([]float64, error) {
		return newUrn(zipfWeights(s.Experts, a)).shares(s.TopK), nil
	})
}

func zipfWeights(n int, a float64) []float64 {
	w := make([]float64, n)
	for j := range w {
		w[j] = pow(float64(j+1), -a)
	}
	return w
}
