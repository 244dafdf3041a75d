package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/epbench/epbench/tune/record"
)

func TestQuantiles(t *testing.T) {
	xs := []float64{5, 1, 4, 2, 3}
	for _, c := range []struct{ got, want float64 }{
		{Median(xs), 3}, {Median(xs[:4]), 3}, {Quantile(xs, 0), 1}, {Quantile(xs, 1), 5}, {Quantile(xs, 0.1), 1.4},
		{Midmean(xs), 3}, {Midmean([]float64{1, 2, 3, 100}), 2.5}, {Midmean([]float64{0, 0, 1, 2, 3, 6, 99, 99}), 3}, {Spread(xs), 1.4826},
	} {
		if math.Abs(c.got-c.want) > 1e-12 {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
	if xs[0] != 5 {
		t.Error("the caller's samples were reordered")
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("the median of no values must be NaN")
	}
}

// TestMedianOfManyValues: the median without sorting all values is the median of the sorted values, also if many values
// are equal.
func TestMedianOfManyValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 300 {
		for _, values := range []int{2, 5, 1000000} {
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = float64(rng.IntN(values)) / 7
			}
			if got, want := Median(xs), Quantile(xs, 0.5); got != want && n > 0 {
				t.Fatalf("median of %v is %v, want %v", xs, got, want)
			}
		}
	}
	xs := rng.Perm(1000)
	for passes := range 4 {
		ys := make([]float64, len(xs))
		for i, x := range xs {
			ys[i] = float64(x)
		}
		if selectLeast(ys, 499, passes); ys[499] != 499 || slices.Max(ys[:499]) != 498 {
			t.Errorf("after %d passes: %v", passes, ys)
		}
	}
	if got := Median([]float64{math.NaN(), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}); got != 6 {
		t.Errorf("median %v with a NaN, which counts as the least value; want 6", got)
	}
}

func TestPolishRecoversItemsAndRounds(t *testing.T) {
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
			if got, want := item[i]-item[0], effect[i]-effect[0]; !(math.Abs(got-want) <= 1e-9) {
				t.Fatalf("item %d is %v from the anchor, want %v", i, got, want)
			}
		}
	})
}

func TestPairedRatioCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	covered := 0
	const runs, want = 300, 1.02
	for range runs {
		var a, b []float64
		for range 60 {
			shared := rng.NormFloat64() // a disturbance far larger than the effect
			a = append(a, shared+math.Log(want)+0.02*rng.NormFloat64())
			b = append(b, shared+0.02*rng.NormFloat64())
		}
		i := PairedRatio(a, b)
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
}

func TestPolishNeedsItsAnchor(t *testing.T) {
	var obs []Obs
	for round := range 12 {
		drift := float64(round * round)
		obs = append(obs, Obs{2, round, drift})
		item := 3 + round/3
		obs = append(obs, Obs{item, round, drift + float64(item)})
	}
	item, round := Polish(obs, 2)
	for k := 3; k < 7; k++ {
		if got := item[k] - item[2]; !(math.Abs(got-float64(k)) <= 1e-9) {
			t.Errorf("item %d is %v from the anchor", k, got)
		}
	}
	if !math.IsNaN(item[0]) || !math.IsNaN(item[1]) || len(item) != 7 || len(round) != 12 || !(math.Abs(round[11]-round[0]-121) <= 1e-9) {
		t.Errorf("items %v, rounds %v", item, round)
	}
}

func TestPairedRatioOfFew(t *testing.T) {
	if i := PairedRatio([]float64{1}, []float64{0}); i.Mid != math.E || !math.IsNaN(i.Low) || !math.IsNaN(i.High) {
		t.Errorf("of one round: %v", i)
	}
	// Two equal rounds do not prove that there is no spread.
	if i := PairedRatio([]float64{0.02, 0.02}, []float64{0, 0}); i.Low > 1 || i.High < 1.04 || Judge(i, 0.01) != record.Undecided {
		t.Errorf("of two rounds: %v", i)
	}
}

func TestLimitsOfWarnings(t *testing.T) {
	xs := []float64{1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3} // quartiles 2 and 3: outliers lie above 6
	for last, want := range map[float64]int{6: 0, 6.01: 1} {
		if got := Outliers(append(xs, last)); got != want {
			t.Errorf("a reading of %v and a fence at 6: %d outliers", last, got)
		}
	}
	rising := []float64{2, 2, 2, 5, 5, 5, 4, 4, 4}
	if got := Drift(rising); got != 1 {
		t.Errorf("from 2 to 4: drift %v", got)
	}
	if got := Drift(rising[:8]); got != 0 {
		t.Errorf("below nine readings: drift %v", got)
	}
	if got := Drift([]float64{1, 1, 9, 1, 5, 5, 5, 2, 2, 2, 7}); got != 1 {
		t.Errorf("of eleven readings: drift %v", got)
	}
	ten := []float64{1, 1.001, 1, 1.001, 1, 1.001, 1, 1.001, 1, 40}
	if got := Warnings(ten); got != nil {
		t.Errorf("one outlier in ten: %v", got)
	}
	if got := Warnings(ten[1:]); len(got) != 1 || !strings.Contains(got[0], "1 of 9") {
		t.Errorf("one outlier in nine: %v", got)
	}
	if got := Warnings(ten[2:]); got != nil {
		t.Errorf("one outlier in eight: %v", got)
	}
	for last, want := range map[float64]bool{95: false, 94.9: true} {
		if got := ClockWarning([]float64{100, last}) != ""; got != want {
			t.Errorf("from 100 to %v MHz: warned %v", last, got)
		}
	}
	if got := ClockWarning([]float64{0, 0}); got != "" {
		t.Errorf("a clock of 0: %q", got)
	}
}

func TestWarnings(t *testing.T) {
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
	}{"flat": {flat, ""}, "drifting": {drifting, "drift: the last third of the rounds is +19.1 %"}, "spiky": {spiky, "outliers: 4 of 30"}} {
		got := strings.Join(Warnings(c.xs), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if w := ClockWarning([]float64{1980, 1975, 1700}); !strings.Contains(w, "from 1980 to 1700 MHz") {
		t.Errorf("a falling clock: %q", w)
	}
	if w := ClockWarning([]float64{1980, 1975}) + ClockWarning(nil); w != "" {
		t.Errorf("a steady clock: %q", w)
	}
}
