package search

import (
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// finalist is one whose samples are steady.
func finalist(point int, effect float64) Finalist {
	f := Finalist{Point: point, Effect: effect}
	for i := range 50 {
		f.clear = append(f.clear, effect+1e-5*float64(i%5))
		f.rounds = append(f.rounds, i)
	}
	return f
}

func TestChoose(t *testing.T) {
	cost := func(i int) ep.Cost { return ep.Cost{SMs: 100 - 10*i, Threads: i} }
	fs := []Finalist{finalist(1, -0.200), finalist(2, -0.199), finalist(3, -0.195), finalist(4, -0.192), finalist(5, -0.150)}
	for _, c := range []struct {
		name string
		p    Preference
		want int // point
		ties int
	}{
		{"fewest SMs within the band", Preference{Incumbent: -1, Default: 9, Neighbour: -1}, 4, 4},
		{"the neighbour's winner before the cheapest", Preference{Incumbent: -1, Default: 9, Neighbour: 2}, 2, 4},
		{"the default before the neighbour's", Preference{Incumbent: -1, Default: 3, Neighbour: 2}, 3, 4},
		{"the incumbent before the default", Preference{Incumbent: 1, Default: 3, Neighbour: 2}, 1, 4},
		{"an incumbent beaten by the band", Preference{Incumbent: 5, Default: 9, Neighbour: -1}, 4, 4},
	} {
		c.p.Cost = cost
		win, ties := c.p.Choose(fs, 0.01)
		if fs[win].Point != c.want || len(ties) != c.ties {
			t.Errorf("%s: chose %d of %d ties, want %d of %d", c.name, fs[win].Point, len(ties), c.want, c.ties)
		}
	}
	if win, ties := (Preference{}).Choose(nil, 0.01); win != -1 || ties != nil {
		t.Error("something was chosen of nothing")
	}
}
