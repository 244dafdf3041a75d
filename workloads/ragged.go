package workloads

import (
	"fmt"
	"math"

	"github.com/epbench/epbench/tune/ep"
)

// raggedKind is a distribution and a modifier. As a distribution, it draws uniform routings for ranks with different
// token counts. As a modifier, it changes the token counts of another distribution.
var raggedKind = kind{
	name: "ragged",
	doc:  "ranks have different numbers of tokens: one rank has min, one rank has max, and the other ranks lie between; max is the problem's token count unless given",
	params: []param{
		{name: "min", min: 0, max: ep.MaxTokens, def: 0, whole: true},
		{name: "max", min: 0, max: ep.MaxTokens, whole: true, open: true},
	},
	build: func(a args, r *recipe) error {
		if a.v[1] < a.v[0] {
			return fmt.Errorf("max: %v is below min, %v", a.v[1], a.v[0])
		}
		lo, hi := a.int(0), a.v[1]
		r.orUniform()
		r.sizes = func(most, ranks int, seed uint64) ([]int, error) {
			if !math.IsNaN(hi) && int(hi) > most {
				return nil, fmt.Errorf("ragged: max is %v, the problem has %d tokens per rank; raise --tokens or leave max out", hi, most)
			}
			if !math.IsNaN(hi) {
				most = int(hi)
			}
			return ragged(newRNG(seed, streamSizes), ranks, lo, most)
		}
		return nil
	},
}

func ragged(r *rng, ranks, lo, hi int) ([]int, error) {
	if lo > hi {
		return nil, fmt.Errorf("ragged: min is %d, the problem has %d tokens per rank", lo, hi)
	}
	size := make([]int, ranks)
	for i := range size {
		size[i] = lo + r.below(hi-lo+1)
	}
	size[0] = hi
	if ranks > 1 {
		size[1] = lo
	}
	shuffle(r, size)
	return size, nil
}
