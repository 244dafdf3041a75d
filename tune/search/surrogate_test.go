package search

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestSurrogateLearnsWhichAxisMatters(t *testing.T) {
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
	p := newSurrogate([]int{3, 3}, usualPriors)
	for range 3 {
		p.learn(at, y)
	}
	if p.roughness[0] <= p.roughness[1] {
		t.Errorf("roughness %v: the first axis matters, so it must be rougher", p.roughness)
	}
	var off, spread float64
	for k, deviation := range p.deviations(rest) {
		off += math.Abs(p.predict(rest[k])-truth(rest[k])) / float64(len(rest))
		spread += deviation / float64(len(rest))
	}
	if off > 0.03 || spread <= 0 || spread > 0.2 {
		t.Errorf("the mean error is %.3f, the mean predicted deviation %.3f", off, spread)
	}
	near, far := p.deviations([][]float64{at[0]})[0], p.deviations([][]float64{{9, 9}})[0]
	if near >= far {
		t.Errorf("predicted deviation %.3f at a measured point, %.3f far from all points", near, far)
	}
}

// TestSurrogateOfFewPoints: far from few points, predictions follow the scores of other kernels.
func TestSurrogateOfFewPoints(t *testing.T) {
	scores := []float64{-1, 0, 1, 2}
	for _, y := range [][]float64{{0.2}, {0.2, 0.2}} {
		p := newSurrogate([]int{3}, usualPriors)
		p.prior = priorOf(scores)
		p.learn([][]float64{{0}, {1}}[:len(y)], y)
		far := []float64{1000}
		if deviation, all := p.deviations([][]float64{far})[0], math.Sqrt(priorOf(scores).variance); deviation < all/2 {
			t.Errorf("%d points: predicted deviation %.3f far from them, other kernels' scores deviate by %.3f", len(y), deviation, all)
		}
		if e := p.predict(far); e <= 0.2 || e >= 0.5 {
			t.Errorf("%d points of 0.2: %.3f predicted far from them, want between 0.2 and the mean of all, 0.5", len(y), e)
		}
		if p.nugget != usualPriors.nugget || p.roughness[0] != usualPriors.roughness {
			t.Errorf("%d points: nugget %v, roughness %v; so few points must not change them", len(y), p.nugget, p.roughness)
		}
	}
}

func TestImprovement(t *testing.T) {
	if a, b := expectedImprovement(1, 0.5, 0.01), expectedImprovement(1, 0.9, 0.01); math.Abs(a-0.5) > 1e-6 || a <= b {
		t.Errorf("an improvement of 0.5 is certain: %v; an improvement of 0.1 is certain: %v", a, b)
	}
	if a, b := expectedImprovement(1, 1.2, 0.3), expectedImprovement(1, 1.2, 0.01); a <= b || b > 1e-6 {
		t.Errorf("the prediction is worse: %v with a large deviation, %v with a small deviation", a, b)
	}
}
