package stat

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestQuantiles(t *testing.T) {
	xs := []float64{5, 1, 4, 2, 3}
	for _, c := range []struct{ got, want float64 }{
		{Median(xs), 3}, {Median(xs[:4]), 3}, {Quantile(xs, 0), 1}, {Quantile(xs, 1), 5}, {Quantile(xs, 0.1), 1.4},
		{Midmean(xs), 3}, {Midmean([]float64{1, 2, 3, 100}), 2.5}, {Spread(xs), 1.4826},
	} {
		if math.Abs(c.got-c.want) > 1e-12 {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
	if xs[0] != 5 {
		t.Error("the caller's samples were reordered")
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("the median of nothing is a number")
	}
}

// TestPolishRecoversBothWays: any effects of items and rounds come back, up to
// the level, when every round holds the anchor; a wild reading moves nothing.
func TestPolishRecoversBothWays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items, rounds := rapid.IntRange(3, 8).Draw(t, "items"), rapid.IntRange(6, 12).Draw(t, "rounds")
		effect := rapid.SliceOfN(rapid.Float64Range(-1, 1), items, items).Draw(t, "effect")
		level := rapid.SliceOfN(rapid.Float64Range(-3, 3), rounds, rounds).Draw(t, "level")
		wild := rapid.IntRange(1, items-1).Draw(t, "wild")
		var obs []Obs
		for r := range rounds {
			for i := range items {
				x := effect[i] + level[r]
				if i == wild && r == 0 {
					x += 50
				}
				obs = append(obs, Obs{i, r, x})
			}
		}
		item, _ := Polish(obs, 0)
		for i := range items {
			if got, want := item[i]-item[0], effect[i]-effect[0]; math.Abs(got-want) > 1e-9 {
				t.Fatalf("item %d is %v from the anchor, want %v", i, got, want)
			}
		}
	})
}

func TestMedianRatioCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	covered := 0
	const runs, want = 300, 1.02
	for k := range runs {
		var a, b []float64
		for range 60 {
			shared := rng.NormFloat64() // a disturbance far larger than the effect
			a = append(a, shared+math.Log(want)+0.02*rng.NormFloat64())
			b = append(b, shared+0.02*rng.NormFloat64())
		}
		i := MedianRatio(a, b, uint64(k))
		if i.Low <= want && want <= i.High {
			covered++
		}
		if i.Half() > 0.02 {
			t.Fatalf("the interval %+v is as wide as the disturbance", i)
		}
	}
	if covered < runs*90/100 {
		t.Errorf("the 95 %% interval covers the truth in %d of %d runs", covered, runs)
	}
	if x, y := MedianRatio([]float64{1, 2, 3}, []float64{1, 1, 1}, 5), MedianRatio([]float64{1, 2, 3}, []float64{1, 1, 1}, 5); x != y {
		t.Error("equal seeds give different intervals")
	}
}

func TestWarningsAreValues(t *testing.T) {
	flat := make([]float64, 30)
	drifting := make([]float64, 30)
	spiky := make([]float64, 30)
	for i := range flat {
		flat[i] = 1 + 0.001*float64(i%3)
		drifting[i] = 1 + 0.01*float64(i)
		spiky[i] = flat[i]
		if i%7 == 3 {
			spiky[i] = 40
		}
	}
	for name, c := range map[string]struct {
		xs   []float64
		want string
	}{"flat": {flat, ""}, "drifting": {drifting, "drift"}, "spiky": {spiky, "outliers: 4 of 30"}} {
		got := strings.Join(Warnings(c.xs), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if w := ClockWarning([]float64{1980, 1975, 1700}); !strings.Contains(w, "from 1980 to 1700 MHz") {
		t.Errorf("throttling reads %q", w)
	}
	if w := ClockWarning([]float64{1980, 1975}) + ClockWarning(nil); w != "" {
		t.Errorf("steady clocks read %q", w)
	}
}
