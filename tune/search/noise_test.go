package search

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/record"
)

// TestNoise: neither spikes nor disturbances of whole rounds change the estimate.
func TestNoise(t *testing.T) {
	for _, c := range []struct {
		sigma, band float64
		spikes      float64
		timed       bool
		least, most int
	}{
		{0, 0.01, 0, false, ScreenRounds, ScreenRounds},
		{0.005, 0.01, 0, false, ScreenRounds, ScreenRounds},
		{0.02, 0.01, 0, false, 5, 9},
		{0.02, 0.01, 0.02, false, 5, 9},
		{0.05, 0.01, 0, false, mostScreenRounds, mostScreenRounds},
		{0.05, 0.01, 0, true, mostTimedRounds, mostTimedRounds},
		{0.05, 0.1, 0, false, ScreenRounds, ScreenRounds},
		{0.05, 0, 0, false, ScreenRounds, ScreenRounds},
	} {
		rng, drift := rand.New(rand.NewPCG(1, 2)), map[int]float64{}
		e := &script{seconds: func(_ record.Stage, point, round int) float64 {
			if _, ok := drift[round]; !ok {
				drift[round] = 0.3 * rng.NormFloat64()
			}
			x := drift[round] + c.sigma*rng.NormFloat64()
			if rng.Float64() < c.spikes {
				x += 0.2
			}
			return math.Exp(x + 0.1*float64(point))
		}}
		budget := Budget{}
		if c.timed {
			budget.Time = time.Hour
		}
		s := sixPoints(t, e, budget)
		s.Band = c.band
		if s.screenRounds() != ScreenRounds {
			t.Error("the noise is not known yet, but screenRounds asks for more rounds")
		}
		live := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
		if err := s.Measure(context.Background(), "x", live, 10); err != nil {
			t.Fatal(err)
		}
		if got := s.screenRounds(); got < c.least || got > c.most {
			t.Errorf("noise %g, band %g: %d rounds for noise of %.4f, want %d to %d", c.sigma, c.band, got, s.noise(), c.least, c.most)
		}
	}
}
