package workloads

import "fmt"

var groupedKind = kind{
	name: "grouped",
	doc:  "the experts form g groups, and every expert has a random score; a group's score is the sum of its two highest expert scores; a token takes the t best groups, and selects the best experts of these groups (DeepSeek-V3)",
	params: []param{
		{name: "g", min: 1, max: 256, def: 8, whole: true},
		{name: "t", min: 1, max: 256, def: 4, whole: true},
	},
	build: func(a args, r *recipe) error {
		g, t := a.int(0), a.int(1)
		if t > g {
			return fmt.Errorf("t: %d is above g, %d", t, g)
		}
		r.law = grouped{g, t}.prepare
		return nil
	},
}

type grouped struct{ groups, take int }

func (g grouped) prepare(s drawRequest) (filler, error) {
	if s.Experts%g.groups != 0 {
		return nil, fmt.Errorf("grouped: %d experts do not divide into %d groups", s.Experts, g.groups)
	}
	size := s.Experts / g.groups
	if s.TopK > size*g.take {
		return nil, fmt.Errorf("grouped: top-%d does not fit %d groups of %d experts; use a larger t", s.TopK, g.take, size)
	}
	return limited{grouped: g, size: size}, nil
}

type limited struct {
	grouped
	size int
}

func (l limited) fill(r *rng, c chunk) {
	score := make([]uint32, l.groups*l.size)
	best := make([]uint64, l.groups)
	top := make([]uint32, c.k)
	for i := 0; i < len(c.ids); i += c.k {
		scores(*r, score)
		r.next()
		for g := range best {
			best[g] = topTwo(score[g*l.size:][:l.size])
		}
		l.choose(score, best, top, c.ids[i:i+c.k])
	}
}

func scores(seed rng, s []uint32) {
	at := mix(uint64(seed))
	for len(s) >= 2 {
		x := mix(at)
		s[0], s[1] = uint32(x), uint32(x>>32)
		s, at = s[2:], at+0x9e3779b97f4a7c15
	}
	if len(s) == 1 {
		s[0] = uint32(mix(at))
	}
}

// topTwo returns the sum of the two largest scores, plus 1 so that it is never 0.
func topTwo(s []uint32) uint64 {
	var a, b uint32       // a >= b
	for _, v := range s { // min and max, because the CPU would mispredict branches
		b = max(b, min(a, v))
		a = max(a, v)
	}
	return uint64(a) + uint64(b) + 1
}

// choose fills ids with the best experts of the best groups, largest score first. It clears
// these groups in `best`.
func (l limited) choose(score []uint32, best []uint64, top []uint32, ids []int32) {
	n := 0
	for range l.take {
		g := 0
		for i, v := range best {
			if v > best[g] {
				g = i
			}
		}
		best[g] = 0
		for e := g * l.size; e < (g+1)*l.size; e++ {
			if n == len(ids) && score[e] <= top[n-1] {
				continue
			}
			n = min(n+1, len(ids))
			j := n - 1
			for ; j > 0 && top[j-1] < score[e]; j-- {
				top[j], ids[j] = top[j-1], ids[j-1]
			}
			top[j], ids[j] = score[e], int32(e)
		}
	}
}
