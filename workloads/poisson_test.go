package workloads

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPoissonShares(t *testing.T) {
	for _, c := range []struct {
		load []float64
		k    int
	}{
		{[]float64{1, 1, 1, 1}, 2},
		{[]float64{100, 1, 1, 1}, 2},
		{[]float64{5, 4, 3, 2, 1, .5, .25, .125}, 4},
		{[]float64{1, 1, 0, 1}, 3},
		{[]float64{1e6, 1e5, 1, 1e-3, 1e-6}, 3},
		{[]float64{1, 1}, 2},
	} {
		want := shares(c.load, c.k)
		sum := 0.0
		for _, s := range want {
			sum += s
		}
		if math.Abs(sum-float64(c.k)) > 1e-9 {
			t.Errorf("%v: shares %v sum to %v", c.load, want, sum)
		}
		p, r := newPoisson(want, c.k), newRNG(1)
		const n = 200_000
		got := make([]float64, len(c.load))
		dst := make([]int32, c.k)
		for range n {
			p.draw(r, 0, dst)
			for i, e := range dst {
				if slices.Contains(dst[:i], e) {
					t.Fatalf("%v: duplicate in %v", c.load, dst)
				}
				got[e] += 1.0 / n
			}
		}
		for e := range got {
			if sd := math.Sqrt(want[e] * (1 - want[e]) / n); math.Abs(got[e]-want[e]) > 5*sd+1e-9 {
				t.Errorf("%v: expert %d has share %v, want %v", c.load, e, got[e], want[e])
			}
		}
	}
}

func TestCalibrate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 100).Draw(t, "experts")
		k := rapid.IntRange(1, min(n, 32)).Draw(t, "k")
		spread := rapid.Float64Range(0, 30).Draw(t, "spread")
		load := make([]float64, n)
		for i := range load {
			load[i] = math.Exp(spread * rapid.Float64Range(-1, 1).Draw(t, "load"))
		}
		p := newPoisson(shares(load, k), k)
		left := k - len(p.always)
		if left == 0 {
			return
		}
		var want []float64
		all := shares(load, k)
		for _, e := range p.order {
			want = append(want, all[e])
		}
		for i, got := range inclusion(calibrate(want, left), left) {
			if !(math.Abs(got-want[i]) < 1e-6) {
				t.Fatalf("share %v became %v", want[i], got)
			}
		}
	})
}
