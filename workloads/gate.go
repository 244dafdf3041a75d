package workloads

import "sync"

const gateBits = 12

// gate returns the values of a gate function for 2^gateBits router logits. The logits are quantiles of the standard
// normal distribution.
type gate func() []float32

// Mixtral and Qwen use softmax over the selected logits. DeepSeek-V3 uses sigmoids divided by their
// sum.
var (
	softmax gate = sync.OnceValue(func() []float32 { return tabulate(exp) })
	sigmoid gate = sync.OnceValue(func() []float32 {
		return tabulate(func(z float64) float64 { return 1 / (1 + exp(-z)) })
	})
)

var softmaxKind = kind{
	name: "softmax", doc: "weights are a softmax over the selected logits (the default)",
	build: func(_ args, r *recipe) error { r.gate = softmax; return nil },
}

var sigmoidKind = kind{
	name: "sigmoid", doc: "weights are sigmoids of the selected logits, divided by their sum",
	build: func(_ args, r *recipe) error { r.gate = sigmoid; return nil },
}

func tabulate(f func(logit float64) float64) []float32 {
	t := make([]float32, 1<<gateBits)
	for i := range t {
		t[i] = float32(f(quantile((float64(i) + 0.5) / (1 << gateBits))))
	}
	return t
}

func (g gate) fill(r *rng, k int, w []float32) {
	table := g()
	var bits uint64
	for i := range w {
		if i%(64/gateBits) == 0 {
			bits = r.next()
		}
		w[i] = table[bits&(1<<gateBits-1)]
		bits >>= gateBits
	}
	for i := 0; i < len(w); i += k {
		descend(w[i : i+k])
		normalise(w[i : i+k])
	}
}

// descend sorts w, the largest weight first. Insertion sort is fast enough for at most 32 weights.
func descend(w []float32) {
	for i := 1; i < len(w); i++ {
		v, j := w[i], i
		for ; j > 0 && w[j-1] < v; j-- {
			w[j] = w[j-1]
		}
		w[j] = v
	}
}

func normalise(w []float32) {
	var sum float32
	for _, v := range w {
		sum += v
	}
	if sum == 0 {
		return
	}
	for i := range w {
		w[i] /= sum
	}
}
