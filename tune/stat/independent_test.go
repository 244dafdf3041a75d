package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMedianInterval(t *testing.T) {
	for _, c := range []struct {
		n, lo, hi int // of the values 1..n
	}{{1, 1, 1}, {5, 1, 5}, {6, 1, 6}, {9, 2, 8}, {20, 6, 15}, {100, 40, 61}} {
		xs := make([]float64, c.n)
		for i := range xs {
			xs[i] = float64((i*7)%c.n + 1)
			if c.n%7 == 0 {
				xs[i] = float64(i + 1)
			}
		}
		got := MedianInterval(xs)
		if got.Low != float64(c.lo) || got.High != float64(c.hi) || got.Mid != float64(c.n+1)/2 {
			t.Errorf("n=%d: got %v, want %v in [%d, %d]", c.n, got, float64(c.n+1)/2, c.lo, c.hi)
		}
	}
	if !math.IsNaN(MedianInterval(nil).Mid) {
		t.Error("no values have no median")
	}
}

// The interval of the ratio covers the truth about as often as it says, and
// its error is that of the theory.
func TestRatioOfMediansCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const trials, n, truth = 400, 30, 1.05
	covered, se := 0, 0.0
	for k := range trials {
		a, b := make([]float64, n), make([]float64, n)
		for i := range a {
			a[i] = truth * math.Exp(0.02*rng.NormFloat64())
			b[i] = math.Exp(0.02 * rng.NormFloat64())
		}
		r := RatioOfMedians(a, b, uint64(k))
		if r.Low <= truth && truth <= r.High {
			covered++
		}
		se += r.StdErr / trials
	}
	if share := float64(covered) / trials; share < 0.92 || share > 0.99 {
		t.Errorf("covered %.3f of the time, want about 0.95", share)
	}
	if want := 0.02 * math.Sqrt(math.Pi/2*2/n); se < 0.9*want || se > 1.3*want {
		t.Errorf("standard error %.5f, theory says %.5f", se, want)
	}
}

// TestRatioOfMediansHasNoUnit: seconds or microseconds, the ratio is the same.
func TestRatioOfMediansHasNoUnit(t *testing.T) {
	a, b := []float64{1, 2, 3, 4, 5, 6, 7, 8}, []float64{2, 2, 3, 3, 4, 4, 9}
	scaled := func(xs []float64) (out []float64) {
		for _, x := range xs {
			out = append(out, 1e-6*x)
		}
		return out
	}
	x, y := RatioOfMedians(a, b, 3), RatioOfMedians(scaled(a), scaled(b), 3)
	for name, d := range map[string]float64{"mid": x.Mid / y.Mid, "low": x.Low / y.Low, "high": x.High / y.High, "error": x.StdErr / y.StdErr} {
		if math.Abs(d-1) > 1e-9 {
			t.Errorf("%s changes by a factor of %v", name, d)
		}
	}
	if !(x.Low < x.Mid && x.Mid < x.High && x.Mid == 1.5) {
		t.Errorf("%+v", x)
	}
}

func TestRatioOfMediansSmall(t *testing.T) {
	r := RatioOfMedians([]float64{2}, []float64{1, 1}, 1)
	if r.Mid != 2 || !math.IsNaN(r.Low) || !math.IsNaN(r.StdErr) {
		t.Errorf("one value has no interval: %+v", r)
	}
	if r = RatioOfMedians([]float64{2, 2}, []float64{1}, 1); !math.IsNaN(r.High) {
		t.Errorf("one value has no interval: %+v", r)
	}
	for _, n := range []int{2, 3} {
		r = RatioOfMedians(slices.Repeat([]float64{2}, n), slices.Repeat([]float64{1}, 5-n), 1)
		if r.Low != 2 || r.High != 2 || r.StdErr != 0 {
			t.Errorf("without noise: %+v", r)
		}
	}
}

func TestBenjaminiHochberg(t *testing.T) {
	// The example of the 1995 paper, section 3.2: four of fifteen at 5 %.
	ps := []float64{0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1}
	n := 0
	for _, s := range BenjaminiHochberg(append(ps, math.NaN()), 0.05) {
		if s {
			n++
		}
	}
	if n != 4 {
		t.Errorf("%d significant, want 4", n)
	}
	if got := BenjaminiHochberg([]float64{0.05, 0.02, 0.9}, 0.05); got[0] || got[1] || got[2] {
		t.Errorf("no p-value of three is at its share: %v", got)
	}
	if got := BenjaminiHochberg([]float64{0.05}, 0.05); !got[0] {
		t.Error("a p-value at its share is significant")
	}
	if len(BenjaminiHochberg(nil, 0.05)) != 0 {
		t.Error("no tests, no calls")
	}
}

func TestUpperP(t *testing.T) {
	if p := UpperP(1.959964, 1); math.Abs(p-0.025) > 1e-6 {
		t.Errorf("got %g", p)
	}
	if UpperP(1, 0) != 0 || UpperP(0, 0) != 1 {
		t.Error("without noise an effect is certain")
	}
}

// Counting draws gives the medians that sorting them would.
func TestResampledMedianIsTheMedian(t *testing.T) {
	for n := 1; n < 12; n++ {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i * i * 7 % 12)
		}
		draw, count := rand.New(rand.NewPCG(3, uint64(n))), rand.New(rand.NewPCG(3, uint64(n)))
		for range 50 {
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = values[draw.IntN(n)]
			}
			if got, want := newResampler(values).median(count), Median(xs); got != want {
				t.Fatalf("n=%d: %v, want %v", n, got, want)
			}
		}
	}
}
