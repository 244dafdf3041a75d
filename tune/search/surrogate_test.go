package search

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestProcessLearnsWhichAxisMatters: of two axes one decides, and a process that has seen
// 24 of 100 points orders the others by it.
func TestProcessLearnsWhichAxisMatters(t *testing.T) {
	truth := func(x []float64) float64 { return math.Abs(x[0]-0.6) + 0.001*x[1] }
	rng := rand.New(rand.NewPCG(1, 1))
	var at, rest [][]float64
	var y []float64
	for i := range 10 {
		for j := range 10 {
			x := []float64{float64(i) / 9, float64(j) / 9}
			if rng.IntN(4) == 0 {
				at, y = append(at, x), append(y, truth(x)+0.002*rng.NormFloat64())
			} else {
				rest = append(rest, x)
			}
		}
	}
	p := newSurrogate(2)
	for range 3 {
		p.learn(at, y)
	}
	if p.roughness[0] <= p.roughness[1] {
		t.Errorf("roughness %v: the first axis decides", p.roughness)
	}
	var off, spread float64
	for k, doubt := range p.deviations(rest) {
		off += math.Abs(p.predict(rest[k])-truth(rest[k])) / float64(len(rest))
		spread += doubt / float64(len(rest))
	}
	if off > 0.03 || spread <= 0 || spread > 0.2 {
		t.Errorf("off by %.3f in the mean, doubts %.3f", off, spread)
	}
	near, far := p.deviations([][]float64{at[0]})[0], p.deviations([][]float64{{9, 9}})[0]
	if near >= far {
		t.Errorf("doubt %.3f where it was measured, %.3f far from all", near, far)
	}
}

// TestProcessOfFewPoints: of one or two points a process does not conclude that a kernel is as
// flat as they are, and far from them it expects what other kernels' scores say.
func TestProcessOfFewPoints(t *testing.T) {
	scores := []float64{-1, 0, 1, 2}
	for _, y := range [][]float64{{0.2}, {0.2, 0.2}} {
		p := newSurrogate(1)
		p.prior = priorOf(scores)
		p.learn([][]float64{{0}, {1}}[:len(y)], y)
		far := []float64{1000}
		if doubt, all := p.deviations([][]float64{far})[0], math.Sqrt(priorOf(scores).variance); doubt < all/2 {
			t.Errorf("%d points: doubt %.3f far from them, other kernels' scores spread by %.3f", len(y), doubt, all)
		}
		if e := p.predict(far); e <= 0.2 || e >= 0.5 {
			t.Errorf("%d points of 0.2: %.3f expected far from them, want between them and the mean of all, 0.5", len(y), e)
		}
		if p.nugget != usualNugget || p.roughness[0] != usualRoughness {
			t.Errorf("%d points: nugget %v, roughness %v; so few say nothing of them", len(y), p.nugget, p.roughness)
		}
	}
}

func TestImprovement(t *testing.T) {
	if a, b := expectedImprovement(1, 0.5, 0.01), expectedImprovement(1, 0.9, 0.01); math.Abs(a-0.5) > 1e-6 || a <= b {
		t.Errorf("sure to be 0.5 better: %v; 0.1 better: %v", a, b)
	}
	if a, b := expectedImprovement(1, 1.2, 0.3), expectedImprovement(1, 1.2, 0.01); a <= b || b > 1e-6 {
		t.Errorf("expected to be worse: %v in doubt, %v for certain", a, b)
	}
}
