package workloads

import "fmt"

// In these distributions a token selects only experts of certain ranks, all with the same
// probability.

var localKind = kind{
	name: "local", doc: "every token stays on its own rank, so nothing is sent between ranks",
	build: func(_ args, r *recipe) error { r.law = local; return nil },
}

func local(s drawRequest) (filler, error) {
	return within("local", s, func(rank int) int { return rank })
}

// within returns a filler with which the tokens of rank r select only experts of the rank `of(r)`.
func within(law string, s drawRequest, of func(rank int) int) (filler, error) {
	n := s.LocalExperts()
	if s.TopK > n {
		return nil, fmt.Errorf("%s: a token selects %d distinct experts, but a rank has %d; use fewer ranks or a smaller top-k", law, s.TopK, n)
	}
	return eachToken(func(r *rng, rank int, dst []int32) { subset(r, of(rank)*n, of(rank)*n+n, dst) }), nil
}

var remoteKind = kind{
	name: "remote", doc: "no token stays on its own rank",
	build: func(_ args, r *recipe) error { r.law = remote; return nil },
}

func remote(s drawRequest) (filler, error) {
	n := s.LocalExperts()
	if s.TopK > s.Experts-n {
		return nil, fmt.Errorf("remote: a token selects %d distinct experts, but the other ranks have %d; use more ranks or a smaller top-k", s.TopK, s.Experts-n)
	}
	return eachToken(func(r *rng, rank int, dst []int32) {
		subset(r, 0, s.Experts-n, dst)
		for i, e := range dst { // skip this rank's experts
			if int(e) >= rank*n {
				dst[i] += int32(n)
			}
		}
	}), nil
}

var all2oneKind = kind{
	name: "all2one", doc: "every token selects experts of one rank",
	params: []param{{name: "rank", min: 0, max: 1023, def: 0, whole: true}},
	build:  func(a args, r *recipe) error { r.law = all2one(a.int(0)).prepare; return nil },
}

type all2one int

func (a all2one) prepare(s drawRequest) (filler, error) {
	if int(a) >= s.Ranks {
		return nil, fmt.Errorf("all2one: rank is %d, the problem has %d ranks", int(a), s.Ranks)
	}
	return within("all2one", s, func(int) int { return int(a) })
}
