package workloads

import "fmt"

var hotrankKind = kind{
	name:   "hotrank",
	doc:    "rank 0 gets r times the selections of the mean rank (DeepEP's hot rank ratio)",
	params: []param{{name: "r", min: 0, max: 1024, def: 2}},
	build: func(a args, r *recipe) error {
		ratio := a.v[0]
		loadLaw{load: func(s drawRequest, _ float64) ([]float64, error) { return hotrank(s, ratio) }, fixed: true}.law(r)
		return nil
	},
}

func hotrank(s drawRequest, r float64) ([]float64, error) {
	most := min(float64(s.Ranks), float64(s.Experts)/float64(s.TopK))
	if r > most {
		return nil, fmt.Errorf("hotrank: r is %v, top-%d of %d experts on %d ranks allows at most %.4g", r, s.TopK, s.Experts, s.Ranks, most)
	}
	local := s.LocalExperts()
	high := r * float64(s.TopK) / float64(s.Experts)
	low, elsewhere := 0.0, float64(s.TopK)-float64(high*float64(local))
	if s.Ranks > 1 {
		low = elsewhere / float64(s.Experts-local)
	}
	if low > 1 || s.Ranks == 1 && r < 1 {
		return nil, fmt.Errorf("hotrank: r is %v, but the %d experts of other ranks cannot take %.4g of the %d selections of a token; use r of at least 1", r, s.Experts-local, elsewhere, s.TopK)
	}
	return twoLevels(s.Experts, local, high, low), nil
}
