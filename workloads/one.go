package workloads

import "fmt"

var oneKind = kind{
	name:   "one",
	doc:    "a fraction f of the tokens select the same expert; the other selections are even",
	params: []param{{name: "f", min: 0, max: 1, def: 0.9}},
	build: func(a args, r *recipe) error {
		f := a.v[0]
		loadLaw{load: func(s drawRequest, _ float64) ([]float64, error) { return one(s, f) }}.law(r)
		return nil
	},
}

func one(s drawRequest, f float64) ([]float64, error) {
	others, left := s.Experts-1, float64(s.TopK)-f
	if left > float64(others) {
		return nil, fmt.Errorf("one: the %d other experts cannot take %.4g of the %d selections of a token; f must be at least %v", others, left, s.TopK, s.TopK-others)
	}
	return twoLevels(s.Experts, 1, f, left/float64(max(others, 1))), nil
}
