package search

import (
	"math"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/stat"
)

func finalist(point int, effect float64) Finalist {
	f := Finalist{Point: point, Effect: effect}
	for i := range 50 {
		f.adjusted = append(f.adjusted, effect+1e-5*float64(i%5))
	}
	f.spread = stat.Spread(f.adjusted)
	return f
}

func TestChoose(t *testing.T) {
	cost := func(i int) ep.Cost { return ep.Cost{SMs: 100 - 10*i, Threads: i} }
	fs := []Finalist{finalist(1, -0.200), finalist(2, -0.199), finalist(3, -0.195), finalist(4, -0.192), finalist(5, -0.150)}
	for _, c := range []struct {
		name string
		p    Preference
		want int
		ties int
	}{
		{"fewest SMs within the band", Preference{Incumbent: -1, Default: 9, Neighbour: -1}, 4, 4},
		{"the neighbour's winner before the cheapest", Preference{Incumbent: -1, Default: 9, Neighbour: 2}, 2, 4},
		{"the default before the neighbour's", Preference{Incumbent: -1, Default: 3, Neighbour: 2}, 3, 4},
		{"the incumbent before the default", Preference{Incumbent: 1, Default: 3, Neighbour: 2}, 1, 4},
		{"an incumbent outside the band", Preference{Incumbent: 5, Default: 9, Neighbour: -1}, 4, 4},
	} {
		c.p.Cost = cost
		win, ties := c.p.Choose(fs, 0.01)
		if fs[win].Point != c.want || len(ties) != c.ties {
			t.Errorf("%s: chose %d of %d ties, want %d of %d", c.name, fs[win].Point, len(ties), c.want, c.ties)
		}
	}
	if win, ties := (Preference{}).Choose(nil, 0.01); win != -1 || ties != nil {
		t.Error("Choose picked a winner although there are no finalists")
	}
}

// TestChooseDoubts: Choose takes a cheaper finalist only if it is certainly as fast.
func TestChooseDoubts(t *testing.T) {
	const band = 0.01
	noisy := func(point int, effect float64) Finalist {
		f := Finalist{Point: point, Effect: effect}
		for i := range 50 {
			f.adjusted = append(f.adjusted, effect+0.1*float64(i%5-2))
		}
		f.spread = stat.Spread(f.adjusted)
		return f
	}
	flat := func(point int, effect float64) Finalist {
		return Finalist{Point: point, Effect: effect, adjusted: []float64{effect, effect, effect}}
	}
	cheap := func(i int) ep.Cost { return ep.Cost{SMs: 10 - i} } // a point with a larger number is cheaper
	edge := math.Log1p(band)
	// below returns a finalist that is `errors` standard errors below the band's edge.
	below := func(point int, effect, errors float64) Finalist {
		f := noisy(point, 0)
		scale := (edge - effect) / errors / stat.StdErr(f.adjusted)
		for i := range f.adjusted {
			f.adjusted[i] = effect + scale*f.adjusted[i]
		}
		f.Effect, f.spread = effect, stat.Spread(f.adjusted)
		return f
	}
	for _, c := range []struct {
		name      string
		fs        []Finalist
		neighbour int
		want      int
		ties      int
	}{
		{"a cheap finalist in doubt", []Finalist{flat(1, 0), noisy(2, 0.005)}, -1, 1, 2},
		{"a cheap finalist within the band by 1.9 standard errors", []Finalist{flat(1, 0), below(2, 0.005, 1.9)}, -1, 1, 2},
		{"a cheap finalist within the band by 2.1 standard errors", []Finalist{flat(1, 0), below(2, 0.005, 2.1)}, -1, 2, 2},
		{"a neighbour's winner in doubt", []Finalist{flat(1, 0), noisy(2, 0.005)}, 2, 2, 2},
		{"a cheap finalist for certain", []Finalist{flat(1, 0), flat(2, 0.005)}, -1, 2, 2},
		{"at the band", []Finalist{flat(1, 0), flat(2, edge)}, -1, 2, 2},
		{"beyond the band", []Finalist{flat(1, 0), flat(2, math.Nextafter(edge, 1))}, 2, 1, 1},
		{"one finalist with a large error", []Finalist{noisy(1, 0)}, -1, 1, 1},
	} {
		p := Preference{Incumbent: -1, Default: 9, Neighbour: c.neighbour, Cost: cheap}
		if win, ties := p.Choose(c.fs, band); c.fs[win].Point != c.want || len(ties) != c.ties {
			t.Errorf("%s: chose %d of %d ties, want %d of %d", c.name, c.fs[win].Point, len(ties), c.want, c.ties)
		}
	}
	same := func(int) ep.Cost { return ep.Cost{} }
	if win, _ := (Preference{Incumbent: -1, Default: 9, Neighbour: -1, Cost: same}).Choose([]Finalist{flat(5, 0), flat(3, 0.001), flat(4, 0.002)}, band); win != 1 {
		t.Errorf("equal costs: chose %d, want the lower index", win)
	}
}
