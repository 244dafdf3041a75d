package workloads

import "math"

var dirichletKind = kind{
	name:       "dirichlet",
	doc:        "loads are one draw of a symmetric Dirichlet distribution of concentration alpha",
	params:     []param{{name: "alpha", min: 0.02, max: 1000, def: 1}},
	statistics: []string{"effective", "gini", "maxmean"},
	build: func(a args, r *recipe) error {
		f := a.loadLaw(dirichlet)
		f.fixed = true
		if a.statistic != "" { // solve on a logarithmic scale
			f.load = func(s drawRequest, x float64) ([]float64, error) { return dirichlet(s, exp(x)) }
			f.param.min, f.param.max, f.show = ln(0.02), ln(1000), exp
		}
		f.law(r)
		return nil
	},
}

// dirichlet draws a gamma variate for each expert. Every alpha gets the same random numbers, so
// that statistics change smoothly with alpha.
func dirichlet(s drawRequest, alpha float64) ([]float64, error) {
	load := make([]float64, s.Experts)
	for e := range load {
		load[e] = gamma(newRNG(s.seed, streamHot, uint64(e)), alpha)
	}
	return load, nil
}

// gamma draws from the gamma distribution (Marsaglia and Tsang, ACM TOMS 26, 2000). The result is
// never 0.
func gamma(r *rng, alpha float64) float64 {
	boost := 1.0
	if alpha < 1 {
		boost = pow(r.float(), 1/alpha)
		alpha++
	}
	d := alpha - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		z := quantile(r.float())
		v := 1 + float64(c*z)
		if v <= 0 {
			continue
		}
		v = v * v * v
		if ln(r.float()) < float64(z*z/2)+d-float64(d*v)+float64(d*ln(v)) {
			return max(float64(d*v)*boost, 1e-290)
		}
	}
}
