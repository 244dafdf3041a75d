package workloads

import (
	"iter"

	"github.com/epbench/epbench/tune/ep"
)

var driftKind = kind{
	name: "drift",
	doc:  "one step of a sequence of routings; every h steps, half of the experts exchange their popularity with other experts",
	params: []param{
		{name: "h", min: 0.1, max: 1e6, def: 16},
		{name: "step", min: 0, max: 10_000, def: 0, whole: true},
	},
	build: func(a args, r *recipe) error {
		h, step := a.v[0], a.int(1)
		r.step = uint64(step)
		r.edits = append(r.edits, func(b *batch) { drift(b, h, step) })
		return nil
	},
}

func drift(b *batch, h float64, step int) {
	name := popularityAfter(b.Experts, h, step, b.seed)
	parallel(len(b.ranks), func(rank int) {
		for i, e := range b.ranks[rank].Experts {
			if e >= 0 {
				b.ranks[rank].Experts[i] = name[e]
			}
		}
	})
}

// popularityAfter returns, for each expert e, the expert that has e's popularity after some steps.
func popularityAfter(n int, h float64, step int, seed uint64) []int32 {
	name := newIdentity(n)
	if n < 2 {
		return name
	}
	chance := exchange(pow(2, -1/h))
	r := newRNG(seed, streamDrift)
	for range step {
		for i := range name {
			if r.float() < chance {
				j := (i + 1 + r.below(n-1)) % n
				name[i], name[j] = name[j], name[i]
			}
		}
	}
	return name
}

// exchange returns the chance c that an expert starts an exchange in one step. The chance that an expert keeps its
// popularity is (1-c) e^-c. It must equal `keep`.
func exchange(keep float64) float64 {
	lo, hi := 0.0, 1.0
	for range 50 {
		if c := float64((lo + hi) / 2); (1-c)*exp(-c) > keep {
			lo = c
		} else {
			hi = c
		}
	}
	return lo
}

// Sequence yields the workloads of steps 0 to n-1 of a routing. In every h steps, half of the experts exchange their
// popularity.
func Sequence(spec string, h float64, n int, p ep.Problem, seed uint64) iter.Seq2[*Workload, error] {
	return func(yield func(*Workload, error) bool) {
		for step := range n {
			half := driftKind.params[0].format(h)
			d, err := Parse(spec + "+drift:" + half + ":" + driftKind.params[1].format(float64(step)))
			var w *Workload
			if err == nil {
				w, err = New(d, p, seed)
			}
			if !yield(w, err) || err != nil {
				return
			}
		}
	}
}
