package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestIntervalsOfFewRoundsCover: about 95 % of the 95 % intervals cover the truth.
func TestIntervalsOfFewRoundsCover(t *testing.T) {
	noises := map[string]func(*rand.Rand) float64{
		"normal":    (*rand.Rand).NormFloat64,
		"lognormal": func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64()) - 1 },
		"heavy":     func(r *rand.Rand) float64 { return r.NormFloat64() / math.Sqrt(r.ExpFloat64()) },
	}
	const series = 4000
	tolerance := 3*math.Sqrt(0.95*0.05/series) + 0.01
	for name, noise := range noises {
		for _, n := range []int{6, 10, 13, 25, 50} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(n), 1))
				covered, byError := 0.0, 0.0
				for range series {
					a, b := make([]float64, n), make([]float64, n)
					for i := range a {
						a[i], b[i] = 0.01*noise(rng), 0
					}
					e := Ratio(Part{A: a, B: b})
					if e.Low <= 1 && 1 <= e.High {
						covered += 1.0 / series
					}
					if math.Abs(math.Log(e.Mid)) <= normal95*e.StdErr() {
						byError += 1.0 / series
					}
				}
				if math.Abs(covered-0.95) > tolerance {
					t.Errorf("covers %.3f", covered)
				}
				if short := 0.95 - byError; short > tolerance || short < -tolerance && name == "normal" {
					t.Errorf("1.96 standard errors cover %.3f", byError)
				}
			})
		}
	}
}

// TestIntervalsOfAHandfulCover draws normal noise, because intervals of fewer than six rounds assume it.
func TestIntervalsOfAHandfulCover(t *testing.T) {
	for n := 2; n < 6; n++ {
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		covered := 0
		for range 4000 {
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = rng.NormFloat64()
			}
			if i := middle(xs); i.Low <= 0 && 0 <= i.High {
				covered++
			}
		}
		if share := float64(covered) / 4000; share < 0.94 {
			t.Errorf("%d values: covers %.3f", n, share)
		}
	}
}

func TestCorrelationIsKnown(t *testing.T) {
	const series, n = 500, 50
	for _, c := range []struct{ memory, low, high, unknowable float64 }{{0, 0, 0.12, 0}, {0.5, 0.4, 0.58, 0.05}, {0.9, 0.82, 0.94, 1}} {
		rng, mean, unknowable := rand.New(rand.NewPCG(3, 1)), 0.0, 0.0
		for range series {
			a, b, x := make([]float64, n), make([]float64, n), rng.NormFloat64()
			for i := range a {
				x = c.memory*x + math.Sqrt(1-c.memory*c.memory)*rng.NormFloat64()
				a[i] = x
			}
			e := Ratio(Part{A: a, B: b})
			mean += e.Correlation / series
			if e.Unknowable() != "" {
				unknowable += 1.0 / series
			}
		}
		if mean < c.low || mean > c.high || math.Abs(unknowable-c.unknowable) > 0.1 {
			t.Errorf("correlation %.1f: the mean estimate is %.2f, %.2f of the series are unknowable", c.memory, mean, unknowable)
		}
	}
}

func TestEqualReadingsAreNoTrend(t *testing.T) {
	same := make([]float64, 40)
	if r := Autocorrelation(same); r != 0 {
		t.Errorf("a constant series: %.2f", r)
	}
	rng, mean := rand.New(rand.NewPCG(4, 1)), 0.0
	const series = 1000
	for range series {
		coarse := make([]float64, 40)
		for i := range coarse {
			coarse[i] = float64(rng.IntN(3))
		}
		mean += Autocorrelation(coarse) / series
	}
	if math.Abs(mean) > 0.04 {
		t.Errorf("series of three values have a correlation of %.2f", mean)
	}
}
