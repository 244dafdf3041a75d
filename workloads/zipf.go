package workloads

// zipf draws without replacement with chances proportional to 1/j^a, j being
// the popularity rank of an expert. The same law as top-k of log-weight plus
// Gumbel noise (Mooncake). Which expert is popular is the seed's choice.
type zipf struct{ a float64 }

var zipfKind = kind{
	name: "zipf", doc: "top-k without replacement, the j-th most popular expert weighing 1/j^a; the seed says which it is",
	params: []param{{name: "a", min: 0, max: 8, def: 1}},
	build:  func(a args, r *recipe) error { r.law = zipf{a.v[0]}; return nil },
}

func (z zipf) prepare(s site) (filler, error) {
	w := make([]float64, s.Experts)
	for j, e := range newRNG(s.seed, keyPopularity).perm(s.Experts) {
		w[e] = pow(float64(j+1), -z.a)
	}
	return eachToken(newUrn(w).draw), nil
}

// keyPopularity is the stream that decides which experts are hot.
const keyPopularity = 0x686f74
