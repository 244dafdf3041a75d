package ep

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestSkewClassBoundaries(t *testing.T) {
	for _, c := range []struct {
		share, hottest float64
		ranks          int
		want           Class
	}{
		{1, 1, 8, Even},
		{0.75, 1.2499, 8, Even},
		{0.7499, 1, 8, Skewed},
		{1, 1.25, 8, Skewed},
		{0.2, 1.7499, 8, Skewed},
		{0.1999, 1, 8, Concentrated},
		{0.1999, 1.7499, 8, Concentrated},
		{0.01, 1.75, 8, HotRank},
		{1, 1.75, 8, HotRank},
		{1, 1.75, 3, HotRank},
		{1, 1.4999, 2, Skewed},
		{1, 1.5, 2, HotRank},
		{1, 1, 1, Even},
		{0.01, 1, 1, Concentrated},
	} {
		if got := (Skew{c.share, c.hottest}).Class(c.ranks); got != c.want {
			t.Errorf("share %g hottest %g ranks %d: %s, want %s", c.share, c.hottest, c.ranks, got, c.want)
		}
	}
}

// TestMeasureSkew compares with values computed by hand.
func TestMeasureSkew(t *testing.T) {
	s, ok := MeasureSkew([]int64{40, 0}, 2)
	if want := (Skew{Share: 780 / (780 - 3*math.Sqrt(780)) / 2, Hottest: (40 - 3*math.Sqrt(20)) / 20}); !ok || s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	if s, ok := MeasureSkew([]int64{-5, 2, 1, 1}, 2); !ok || s != (Skew{1, 1}) {
		t.Errorf("few and negative counts: %+v", s)
	}
}

func TestClassifyCounts(t *testing.T) {
	const many = 1 << 40 // too many to be chance
	for _, c := range []struct {
		name   string
		counts []int64
		ranks  int
		want   Class
	}{
		{"nothing counted", make([]int64, 8), 2, AllRoutings},
		{"no experts", nil, 2, AllRoutings},
		{"7 experts on 2 ranks", make([]int64, 7), 2, AllRoutings},
		{"negative", []int64{-5, -5}, 1, AllRoutings},
		{"one token", []int64{1, 0, 0, 0, 1, 0, 0, 0}, 2, Even},
		{"equal", []int64{many, many, many, many}, 2, Even},
		{"one expert of 16 on one rank", append([]int64{many}, make([]int64, 15)...), 1, Concentrated},
		{"one rank of four", []int64{many, many, 0, 0, 0, 0, 0, 0}, 4, HotRank},
		{"hot experts, equal ranks", []int64{many, 0, many, 0}, 2, Skewed},
		{"just under 3/4 effective", []int64{1580e9, 420e9, 1580e9, 420e9}, 2, Skewed},
		{"just over 3/4 effective", []int64{1576e9, 424e9, 1576e9, 424e9}, 2, Even},
	} {
		if got := Classify(c.counts, c.ranks); got != c.want {
			s, _ := MeasureSkew(c.counts, c.ranks)
			t.Errorf("%s: %s, want %s (%+v)", c.name, got, c.want, s)
		}
	}
}

func TestClassifyDoesNotMistakeChanceForSkew(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	wrong, draws := 0, 0
	for _, selections := range []int{1, 8, 64, 512, 4096, 65536} {
		for range 200 {
			counts := make([]int64, 256)
			for range selections {
				counts[rng.IntN(len(counts))]++
			}
			draws++
			if Classify(counts, 8) != Even {
				wrong++
			}
		}
	}
	if wrong*100 > draws {
		t.Errorf("%d of %d samples of an even routing are not classified as even", wrong, draws)
	}
}
