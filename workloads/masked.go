package workloads

import "math"

// maskedKind is a distribution and a modifier. As a distribution, it masks selections of a uniform routing. As a
// modifier, it masks those of another distribution.
var maskedKind = kind{
	name:   "masked",
	doc:    "exactly a fraction p of the selections of every rank is dropped: expert -1, weight 0",
	params: []param{{name: "p", min: 0, max: 1, def: 0.1}},
	build: func(a args, r *recipe) error {
		p := a.v[0]
		r.orUniform()
		r.edits = append(r.edits, func(b *batch) { mask(b, p) })
		return nil
	},
}

func mask(b *batch, p float64) {
	parallel(len(b.ranks), func(rank int) {
		rt, r := &b.ranks[rank], newRNG(b.seed, streamMask, b.step, uint64(rank))
		left := len(rt.Experts)
		drop := int(math.Round(p * float64(left)))
		for i := range rt.Experts { // selection sampling, Knuth 3.4.2 S
			if r.below(left-i) < drop {
				drop--
				rt.Experts[i], rt.Weights[i] = -1, 0
			}
		}
		for i := 0; i < left; i += b.TopK {
			normalise(rt.Weights[i : i+b.TopK])
		}
	})
}
