package search

import (
	"context"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestParsePriors(t *testing.T) {
	p, err := parsePriors("roughness=0.3:strength=0")
	want := usualPriors
	want.roughness, want.strength = 0.3, 0
	if err != nil || p != want {
		t.Errorf("%+v, %v; want %+v", p, err, want)
	}
	for text, says := range map[string]string{
		"roughness=0.2": "not one of", "roughness": "not one of", "roughnes=0.1": "roughness", "": "prior", "strength=NaN": "not one of", "level=0.2,": "not one of",
	} {
		if _, err := parsePriors(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want an error with %q", text, err, says)
		}
	}
}

func TestRoughnessOfSwitches(t *testing.T) {
	p := newSurrogate([]int{2, 3}, usualPriors)
	if p.roughness[0] != usualPriors.switches || p.roughness[1] != usualPriors.roughness || p.logPrior() != 0 {
		t.Errorf("roughness %v, log prior %g", p.roughness, p.logPrior())
	}
	p.learn([][]float64{{0, 0}, {1, 0}, {0, 1}, {1, 1}}, []float64{0, 5, 0.01, 5.01})
	if p.roughness[0] <= p.roughness[1] {
		t.Errorf("roughness %v, although the first axis changes scores more", p.roughness)
	}
}

// TestStrengthOfPriors: strength 0 ignores the scores of other kernels.
func TestStrengthOfPriors(t *testing.T) {
	usual := usualPriors
	usual.strength = 0
	p := newSurrogate([]int{3}, usual)
	p.prior = prior{mean: 5, variance: 4}
	p.learn([][]float64{{0}}, []float64{0.2})
	if got := p.predict([]float64{1000}); got < 0.2-1e-9 || got > 0.2+1e-9 {
		t.Errorf("predicted %g, want 0.2", got)
	}
	p = newSurrogate([]int{3}, usualPriors)
	p.prior = prior{mean: 5, variance: 4}
	p.learn([][]float64{{0}}, []float64{0.2})
	if got := p.predict([]float64{1000}); got < 1 {
		t.Errorf("predicted %g at strength 1, want a value nearer to 5", got)
	}
}

func TestStrategyWithPriors(t *testing.T) {
	if _, err := ParseStrategy("bayes:strength=9"); err == nil {
		t.Error("a strength of 9 is accepted")
	}
	var measured []map[int]bool
	for _, name := range []string{"bayes", "bayes:strength=1", "bayes:strength=0"} {
		strategy := mustParse(t, name)
		space := newSpace(t, Grid{Kernel: "k", Axes: []Axis{ints("a", 0, 1, 2, 3, 4, 5, 6, 7, 8), ints("b", 0, 1, 2, 3, 4, 5, 6, 7, 8), ints("c", 0, 1, 2, 3, 4)}})
		b := &bowl{space: space, measured: map[int]bool{}}
		s := NewState(b.space, b, Budget{Evaluations: 30}, 0, nil, rand.New(rand.NewPCG(1, 1)))
		if err := strategy(context.Background(), s); err != nil {
			t.Fatal(err)
		}
		measured = append(measured, b.measured)
	}
	if !maps.Equal(measured[0], measured[1]) {
		t.Error("bayes:strength=1 measured other points than bayes")
	}
	if maps.Equal(measured[0], measured[2]) {
		t.Error("bayes:strength=0 measured the same points as bayes")
	}
}
