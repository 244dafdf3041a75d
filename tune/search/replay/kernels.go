package replay

import (
	"math"
	"math/rand/v2"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
)

// SyntheticKernels draws the true times of three kernels that resemble GPU kernels. "reference" is slow and has the
// default. Points of "flat" hardly differ. The best points of "split" lie on a narrow ridge.
func SyntheticKernels(noise Noise, seed uint64) *Model {
	rng := rand.New(rand.NewPCG(seed, 0x6b65726e))
	split := search.Grid{Kernel: "split", Axes: []search.Axis{
		axis("algo", 0, 1), axis("sms", 8, 12, 16, 24, 32, 48, 64, 96, 132),
		axis("wait", 0, 2, 5, 6, 8, 10, 12, 14, 16, 24, 32, 48, 68, 84, 100),
		axis("threads", 512, 768, 1024), axis("scales", 0, 1),
	}, Rules: []search.Rule{func(c ep.Config) string {
		if w, n := c.Int("wait"), c.Int("sms"); w > n*4/5 || w > 0 && w < n/12 {
			return "wait"
		}
		return ""
	}}}
	flat := search.Grid{Kernel: "flat", Axes: []search.Axis{
		axis("sms", 16, 32, 64, 132), axis("threads", 512, 1024), axis("send", 512, 1024), axis("part", 512, 1024),
		axis("receivers", 0, 8), axis("pause", 0, 250), axis("early", 0, 1), axis("pdl", 0, 1),
	}}
	reference := search.Grid{Kernel: "reference", Axes: []search.Axis{
		axis("threads", 512, 1024), axis("sms", 64, 132), axis("mode", 0, 1), axis("algo", 0, 1), axis("tile", 32, 128),
		axis("copy", 0, 1), axis("chunk", 0, 4096),
	}}
	space, _, err := search.NewSpace(reference, flat, split)
	if err != nil {
		panic(err)
	}
	m := &Model{Space: space, Noise: noise, Incumbent: -1, Neighbour: -1}
	times := map[string]func(ep.Config) float64{
		"reference": factors(rng, reference, 1.8+3*rng.Float64(), 0.15),
		"flat":      flatTime(rng, flat, 1),
		"split":     splitTime(rng, split, math.Exp(0.35*rng.NormFloat64())),
	}
	for i := range space.Len() {
		c := space.Config(i)
		m.Costs = append(m.Costs, ep.Cost{SMs: c.Int("sms"), Threads: c.Int("threads")})
		m.Truth = append(m.Truth, times[c.Kernel](c)*math.Exp(0.004*rng.NormFloat64()))
	}

	return m
}

// factors returns a function that multiplies `base` by a random factor for each value of a config.
func factors(rng *rand.Rand, g search.Grid, base, spread float64) func(ep.Config) float64 {
	of := map[string]map[ep.Value]float64{}
	for _, a := range g.Axes {
		of[a.Name] = map[ep.Value]float64{}
		for _, v := range a.Values {
			of[a.Name][v] = math.Exp(math.Abs(spread * rng.NormFloat64()))
		}
	}
	return func(c ep.Config) float64 {
		t := base
		for _, a := range g.Axes {
			t *= of[a.Name][c.Values[a.Name]]
		}
		return t
	}
}

func flatTime(rng *rand.Rand, g search.Grid, base float64) func(ep.Config) float64 {
	own := factors(rng, g, 1, 0.04)
	work, both := math.Exp(2+1.5*rng.NormFloat64()), 0.1*rng.NormFloat64()
	return func(c ep.Config) float64 {
		t := base * (0.8 + 0.2*(1+work/float64(c.Int("sms")))) * own(c)
		if c.Int("receivers") == 8 && c.Int("early") == 1 {
			t *= math.Exp(both)
		}
		return t
	}
}

func splitTime(rng *rand.Rand, g search.Grid, base float64) func(ep.Config) float64 {
	send, receive := math.Exp(3+rng.NormFloat64()), math.Exp(2.5+rng.NormFloat64())
	saving, scale, threads := 0.5+0.8*rng.Float64(), 0.1*rng.NormFloat64(), 0.25*rng.NormFloat64()
	return func(c ep.Config) float64 {
		n, w := float64(c.Int("sms")), float64(c.Int("wait"))
		s, r := send, receive
		if c.Int("algo") == 1 {
			s *= saving
			r *= 1.1
		}
		speed := math.Pow(float64(c.Int("threads"))/768, threads)
		body := (s + r) / n * 1.1
		if w > 0 {
			body = max(s/(n-w), r/w)
		}
		t := 0.75 + body/speed
		if c.Int("scales") == 1 {
			t *= math.Exp(scale * math.Tanh(body-0.5))
		}
		return base * t
	}
}
