package workloads

import "math"

var powerlawKind = kind{
	name: "powerlaw",
	doc:  "the loads of experts follow a power law with the density x^-a for x from 1 to span, at evenly spaced quantiles; default span: 0.8 times the number of tokens",
	params: []param{
		{name: "a", min: 0, max: 8, def: 1.01},
		{name: "span", min: 1, max: 1e9, open: true},
	},
	statistics: []string{"gini", "maxmean", "effective"},
	build: func(a args, r *recipe) error {
		span := a.v[1]
		a.loadLaw(func(s drawRequest, x float64) ([]float64, error) { return powerlaw(s, x, span), nil }).law(r)
		return nil
	},
}

// powerlaw follows aiconfigurator's density x^-a between 1 and 0.8 times the number of tokens. If there are at most as
// many selections as experts, the bounds are 0.01 and 2. Only the ratio of the bounds matters.
func powerlaw(s drawRequest, a, span float64) []float64 {
	if math.IsNaN(span) {
		span = max(1, 0.8*float64(s.rows()))
		if s.rows()*s.TopK <= s.Experts {
			span = 200
		}
	}
	load := make([]float64, s.Experts)
	for j := range load {
		load[j] = bounded((float64(j)+0.5)/float64(len(load)), a, span)
	}
	return load
}

func bounded(u, a, span float64) float64 {
	if math.Abs(a-1) < 1e-9 {
		return pow(span, u)
	}
	end := pow(span, 1-a)
	return pow(float64((end-1)*u)+1, 1/(1-a))
}
