package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestMedianInterval(t *testing.T) {
	for _, c := range []struct {
		n        int
		lo, hi   float64 // of the values 1..n
		tolerant float64
	}{{6, 1, 6, 1}, {9, 2, 8, 1}, {20, 6, 15, 1}, {100, 40, 61, 1}} {
		xs := make([]float64, c.n)
		for i := range xs {
			xs[i] = float64(i + 1)
		}
		rand.New(rand.NewPCG(1, uint64(c.n))).Shuffle(c.n, func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
		got := MedianInterval(xs)
		if got.Mid != float64(c.n+1)/2 || got.Low > c.lo+c.tolerant || got.High < c.hi-c.tolerant {
			t.Errorf("n=%d: got %v, want %v in [%v, %v]", c.n, got, float64(c.n+1)/2, c.lo, c.hi)
		}
	}
	if one := MedianInterval([]float64{3}); one.Low != 3 || one.High != 3 {
		t.Errorf("of one value: %v", one)
	}
	if !math.IsNaN(MedianInterval(nil).Mid) {
		t.Error("the median of no values must be NaN")
	}
}

func TestIndependentRatioCovers(t *testing.T) {
	const trials, truth = 2000, 1.05
	for _, sessions := range []int{1, 3, 6} {
		rng, covered := rand.New(rand.NewPCG(1, uint64(sessions))), 0
		side := func(level float64) (out [][]float64) {
			for range sessions {
				at, xs := level+0.02*rng.NormFloat64(), make([]float64, 25)
				for i := range xs {
					xs[i] = at + 0.01*rng.NormFloat64()
				}
				out = append(out, xs)
			}
			return out
		}
		for range trials {
			r := IndependentRatio(side(math.Log(truth)), side(0), 0.02)
			if r.Low <= truth && truth <= r.High {
				covered++
			}
			if r.Sessions != sessions || r.Rounds != 25*sessions {
				t.Fatalf("%+v", r)
			}
		}
		if share := float64(covered) / trials; share < 0.94 {
			t.Errorf("%d sessions: covered %.3f of the time, want 0.95", sessions, share)
		}
	}
}

func TestIndependentRatioHasNoUnit(t *testing.T) {
	a, b := []float64{1, 2, 3, 4, 5, 6, 7, 8}, []float64{2, 2, 3, 3, 4, 4, 9}
	scaled := func(xs []float64) (out []float64) {
		for _, x := range xs {
			out = append(out, 1e-6*x)
		}
		return out
	}
	of := func(a, b []float64) Estimate {
		return IndependentRatio([][]float64{Logs(a)}, [][]float64{Logs(b)}, 0)
	}
	x, y := of(a, b), of(scaled(a), scaled(b))
	for name, d := range map[string]float64{"mid": x.Mid / y.Mid, "low": x.Low / y.Low, "high": x.High / y.High} {
		if math.Abs(d-1) > 1e-9 {
			t.Errorf("%s changes by a factor of %v", name, d)
		}
	}
	if !(x.Low < x.Mid && x.Mid < x.High) {
		t.Errorf("%+v", x)
	}
	if one := of(a[:1], b); !math.IsNaN(one.Low) || !math.IsNaN(one.StdErr()) {
		t.Errorf("one value has no interval: %+v", one)
	}
}

func TestBenjaminiHochberg(t *testing.T) {
	// The example of the 1995 paper, section 3.2: four of fifteen are significant at 5 %.
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
		t.Errorf("none of the three p-values may be significant: %v", got)
	}
	if got := BenjaminiHochberg([]float64{0.05}, 0.05); !got[0] {
		t.Error("a single p-value of 0.05 must be significant at 5 %")
	}
	if len(BenjaminiHochberg(nil, 0.05)) != 0 {
		t.Error("without p-values there must be no results")
	}
}

func TestUpperP(t *testing.T) {
	if p := UpperP(1.959964, 1); math.Abs(p-0.025) > 1e-6 {
		t.Errorf("got %g", p)
	}
	if UpperP(1, 0) != 0 || UpperP(0, 0) != 1 {
		t.Error("without noise a positive effect is certain, and an effect of 0 is not")
	}
}
