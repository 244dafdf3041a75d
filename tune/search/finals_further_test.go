package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// opposed varies the times of all points except point 0 by `noise`: odd points are slow in odd rounds, even points in
// even rounds.
func opposed(noise float64, seconds func(record.Stage, int, int) float64) func(record.Stage, int, int) float64 {
	return func(stage record.Stage, point, round int) float64 {
		if point == 0 {
			return seconds(stage, point, round)
		}
		return seconds(stage, point, round) * math.Exp(noise*float64(1-2*((point+round)%2)))
	}
}

// TestFurtherRounds: the finals measure further rounds while it is uncertain which point is the fastest. They measure
// only points that may be the fastest.
func TestFurtherRounds(t *testing.T) {
	p := Protocol{Band: 0.01, Finalists: 3, MinRounds: 10, MaxRounds: 20}
	for _, c := range []struct {
		name    string
		noise   float64
		seconds []float64
		calls   int
		last    string
	}{
		{"equal points", 0.1, []float64{2, 1, 1}, 32, "f [0 1 2] 10"},               // sixteen times MaxRounds
		{"equal points, small noise", 0.011, []float64{2, 1, 1}, 8, "f [0 1 2] 10"}, // four times MaxRounds
		{"one clearly slower point", 0.1, []float64{2, 1, 1, 1.15}, 32, "f [0 1 2] 10"},
		{"clearly slower points", 0.1, []float64{2, 1, 1.3, 1.3}, 1, "f [0 1 2 3] 10"},
	} {
		e := &script{seconds: opposed(c.noise, secondsByPoint(c.seconds...))}
		s := sixPoints(t, e, Budget{})
		points := []int{1, 2, 3}[:len(c.seconds)-1]
		if err := s.Measure(context.Background(), "s", points, 200); err != nil {
			t.Fatal(err)
		}
		e.asked = nil
		if _, err := s.Finals(context.Background(), p, "f"); err != nil {
			t.Fatal(err)
		}
		if len(e.asked) != c.calls || e.asked[len(e.asked)-1] != c.last {
			t.Errorf("%s: asked for %q, want %d calls, last %s", c.name, e.asked, c.calls, c.last)
		}
	}
}

// TestFurtherRoundsInTime: further rounds leave time for the confirmation.
func TestFurtherRoundsInTime(t *testing.T) {
	p := Protocol{Band: 0.01, Finalists: 3, MinRounds: 10, MaxRounds: 20, ConfirmRounds: 8}
	const search, finals, confirm = 3 * 200, 3 * 20, 8*3 + 4*Neighbours
	for left, want := range map[int]int{29 + confirm: 2, 30 + confirm: 3, 60 + confirm: 4} {
		e := &clocked{script: script{seconds: opposed(0.1, secondsByPoint(2, 1, 1))}, each: time.Second}
		s := sixPoints(t, e, Budget{}, 1, 2)
		if err := s.Measure(context.Background(), "s", []int{1, 2}, 200); err != nil {
			t.Fatal(err)
		}
		e.asked = nil
		s.budget.Time = time.Duration(search+finals+left) * time.Second
		if _, err := s.Finals(context.Background(), p, "f"); err != nil {
			t.Fatal(err)
		}
		if len(e.asked) != want {
			t.Errorf("%d s left: asked for %q, want %d calls", left, e.asked, want)
		}
	}
}

// TestDroppedPointsReturn: a dropped point comes back if the fastest point turns out to be slower.
func TestDroppedPointsReturn(t *testing.T) {
	e := &script{seconds: wobble(0.001, func(_ record.Stage, point, round int) float64 {
		if point == 1 && round < 4 {
			return 0.9
		}
		return []float64{2, 1.2, 1, 1.201}[point]
	})}
	s := sixPoints(t, e, Budget{})
	ctx := context.Background()
	if err := s.Measure(ctx, "x", []int{1, 2}, 4); err != nil {
		t.Fatal(err)
	}
	if rest, _ := s.dropSlower(0.01); !slices.Equal(rest, []int{1, 0}) {
		t.Errorf("points %v are left, want 1 and the default", rest)
	}
	if err := s.Measure(ctx, "x", []int{1}, 20); err != nil {
		t.Fatal(err)
	}
	if rest, _ := s.dropSlower(0.01); !slices.Equal(rest, []int{2, 0}) {
		t.Errorf("points %v are left, want 2 and the default", rest)
	}
}

func TestSetSpreads(t *testing.T) {
	all := []Finalist{{}, {adjusted: []float64{0, 0, 0, 0}}, {adjusted: []float64{-1, 1, -1, 1}}, {adjusted: slices.Repeat([]float64{-1, 1}, 40)}}
	setSpreads(all)
	const usual = 1.4826
	for i, want := range []float64{0, usual * math.Sqrt(20./24), usual, usual} {
		if got := all[i].spread; math.IsNaN(got) || math.Abs(got-want) > 1e-9 {
			t.Errorf("finalist %d: spread %v, want %v", i, got, want)
		}
	}
	none := []Finalist{{adjusted: []float64{1}}}
	if setSpreads(none); none[0].spread != 0 {
		t.Errorf("one sample: spread %v", none[0].spread)
	}
}

// TestMaybeFasterErrs: about 1 % of all finals drop a rival that is faster by exactly `by`. The number of points left
// has no effect.
func TestMaybeFasterErrs(t *testing.T) {
	const by, noise, rounds, finals = 0.005, 0.05, 40, 2000
	rng := rand.New(rand.NewPCG(59, 1))
	for _, points := range []int{3, 4, 10} {
		given := 0
		for range finals {
			s := &State{Default: 0, itemOf: map[int]int{}, failed: map[int]bool{}}
			for round := range rounds {
				common := rng.NormFloat64()
				for point := range points {
					x := common + noise*rng.NormFloat64()
					if point == 1 {
						x -= by
					}
					s.obs = append(s.obs, stat.Obs{Item: s.item(point), Round: round, Log: x})
				}
			}
			if !s.maybeFasterThan(2, 1, by) {
				given++
			}
			rivals := s.maybeFaster(by)
			for point := range points {
				if want := point == rivals[0] || s.maybeFasterThan(rivals[0], point, by); slices.Contains(rivals, point) != want {
					t.Fatalf("%d points: the rivals of %d are %v; whether they hold %d must be %t", points, rivals[0], rivals, point, want)
				}
			}
		}
		if share := float64(given) / finals; share < 0.004 || share > 0.02 {
			t.Errorf("%d points: a rival is given up in %.3f of the finals", points, share)
		}
	}
}
