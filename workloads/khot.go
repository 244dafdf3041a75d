package workloads

import "fmt"

var khotKind = kind{
	name: "khot",
	doc:  "k hot experts share a fraction f of the selections evenly; the other experts share the rest",
	params: []param{
		{name: "k", min: 1, max: 65536, def: 32, whole: true},
		{name: "f", min: 0, max: 1, def: 0.9},
	},
	build: func(a args, r *recipe) error {
		k, f := a.int(0), a.v[1]
		loadLaw{load: func(s drawRequest, _ float64) ([]float64, error) { return khot(s, k, f) }}.law(r)
		return nil
	},
}

func khot(s drawRequest, k int, f float64) ([]float64, error) {
	cold := s.Experts - k
	hotShare := f * float64(s.TopK) / float64(k)
	switch {
	case cold < 0:
		return nil, fmt.Errorf("khot: k is %d, the problem has %d experts", k, s.Experts)
	case hotShare > 1:
		return nil, fmt.Errorf("khot: %d experts cannot take %v of the %d selections of a token, because a token selects an expert only once; use k of at least %d", k, f, s.TopK, ceil(f*float64(s.TopK)))
	case (1-f)*float64(s.TopK) > float64(cold):
		return nil, fmt.Errorf("khot: the %d other experts cannot take %.4g of the %d selections of a token; use a larger f or a smaller k", cold, (1-f)*float64(s.TopK), s.TopK)
	}
	return twoLevels(s.Experts, k, hotShare, (1-f)*float64(s.TopK)/float64(max(cold, 1))), nil
}

func twoLevels(n, k int, high, low float64) []float64 {
	load := make([]float64, n)
	for j := range load {
		load[j] = low
		if j < k {
			load[j] = high
		}
	}
	return load
}

func ceil(x float64) int {
	n := int(x)
	if float64(n) < x {
		n++
	}
	return n
}
