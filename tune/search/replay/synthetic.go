package replay

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
)

// SyntheticNoise returns lognormal noise of relative deviation sigma, with drift, warm-up and spikes.
func SyntheticNoise(sigma float64) Noise {
	return Noise{Sigma: sigma, Drift: 0.01, DriftMemory: 0.999, WarmUp: 0.015, WarmFor: 300, Spikes: 0.02, SpikeBy: 0.2}
}

type landscape struct {
	name string
	draw func(Noise, uint64) *Model
}

var landscapes = []landscape{{"kernels", SyntheticKernels}, {"smooth", Synthetic}}

// LandscapeNames lists the synthetic landscapes.
func LandscapeNames() []string {
	var out []string
	for _, l := range landscapes {
		out = append(out, l.name)
	}
	return out
}

// ParseLandscape finds a synthetic landscape by name.
func ParseLandscape(name string) (draw func(Noise, uint64) *Model, err error) {
	found, err := ep.Find("landscape", name, landscapes, func(l landscape) string { return l.name })
	return found.draw, err
}

// Synthetic draws the true times of 320 configs. The best takes one unit of time. 27 configs take at most 1.2 % longer.
// The remaining configs take 1.012 units plus a lognormal time. Similar configs take similar times.
func Synthetic(noise Noise, seed uint64) *Model {
	rng := rand.New(rand.NewPCG(seed, 0x73796e74))
	grid := search.Grid{Kernel: "synthetic", Axes: []search.Axis{
		axis("sms", 8, 16, 24, 32, 48, 64, 96, 132),
		axis("threads", 128, 256, 512, 768, 1024),
		axis("chunk", 1024, 2048, 4096, 8192),
		axis("fused", 0, 1),
	}}
	space, _, err := search.NewSpace(grid)
	if err != nil {
		panic(err)
	}
	m := &Model{Space: space, Incumbent: -1, Neighbour: -1, Truth: make([]float64, space.Len()), Noise: noise}
	for i := range space.Len() {
		c := space.Config(i)
		m.Costs = append(m.Costs, ep.Cost{SMs: c.Int("sms"), Threads: c.Int("threads"), Bytes: c.Int("chunk")})
	}
	order := byScore(space, grid, rng)
	for rank, t := range times(space.Len(), rng) {
		m.Truth[order[rank]] = t
	}
	// The default is neither good nor bad.
	m.Default = order[space.Len()/4+rng.IntN(space.Len()/4)]
	return m
}

func axis(name string, values ...int) search.Axis {
	a := search.Axis{Name: name}
	for _, v := range values {
		a.Values = append(a.Values, ep.Value(strconv.Itoa(v)))
	}
	return a
}

func times(n int, rng *rand.Rand) []float64 {
	out := []float64{1}
	for range 27 {
		out = append(out, 1+0.012*rng.Float64())
	}
	for len(out) < n {
		out = append(out, 1.012+math.Exp(-1.2+rng.NormFloat64()))
	}
	slices.Sort(out)
	return out
}

func byScore(space *search.Space, grid search.Grid, rng *rand.Rand) []int {
	score := make([]float64, space.Len())
	for _, a := range grid.Axes {
		optimum, weight := rng.Float64(), 0.5+rng.Float64()
		for i := range score {
			at := float64(slices.Index(a.Values, space.Config(i).Values[a.Name])) / float64(len(a.Values)-1)
			score[i] += weight * (at - optimum) * (at - optimum)
		}
	}
	order := make([]int, space.Len())
	for i := range order {
		order[i] = i
		score[i] += 0.15 * rng.NormFloat64()
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(score[a], score[b]) })
	return order
}
