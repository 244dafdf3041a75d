package search

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/epbench/epbench/tune/stat"
)

// TestNeglected: the kernel with fewer measured points gets a point in the batch, if it is nearly as fast as the other
// kernel and has no point in the batch yet.
func TestNeglected(t *testing.T) {
	of := func(kernel string, points ...int) (out []option) {
		for _, i := range points {
			out = append(out, option{point: i, improvement: map[string]float64{"a": 2, "b": 1}[kernel] / float64(i)})
		}
		return out
	}
	all := slices.Concat(of("a", 3, 4), of("b", 22, 23))
	for _, c := range []struct {
		name  string
		slow  float64 // times of kernel b divided by times of kernel a
		all   []option
		batch []int
		want  int
	}{
		{"b is as fast", 1, all, nil, 22},
		{"a has a point in the batch", 1, all, []int{2}, 22},
		{"b has a point in the batch", 1, all, []int{24}, 3},
		{"b is nearly as fast", 1.1, all, []int{2}, 22},
		{"b is slower", 1.11, all, []int{2}, 99},
		{"b is exhausted", 1, of("a", 3, 4), []int{2}, 99},
		{"both have a point in the batch", 1, all, []int{2, 24}, 99},
	} {
		b := twoKernels(t, func(kernel string, _ int) float64 {
			if kernel == "b" {
				return c.slow
			}
			return 1
		}, 0, 1)
		if got := b.neglected(c.all, c.batch, b.least(), option{point: 99}); got.point != c.want {
			t.Errorf("%s: point %d, want %d", c.name, got.point, c.want)
		}
	}
}

// TestNeglectedInEverySecondBatch: in every second batch, the two points are of two kernels.
func TestNeglectedInEverySecondBatch(t *testing.T) {
	blocks, threads := ints("blocks", 1, 2, 4, 8, 16), ints("threads", 1, 2, 4)
	space := newSpace(t, Grid{Kernel: "a", Axes: []Axis{blocks, threads}}, Grid{Kernel: "b", Axes: []Axis{blocks, threads}})
	s := NewState(space, nil, Budget{}, 0, nil, rand.New(rand.NewPCG(1, 1)))
	for n, i := range []int{0, 2, 4, 6, 8, 10, 15, 20} { // six points of a, two of b
		s.obs = append(s.obs, stat.Obs{Item: s.item(i), Log: 0.01 * float64(n)})
	}
	b := newBayesSearch(s)
	for batch := 1; batch <= 4; batch++ {
		next := b.next(2)
		if of := [2]string{b.design(next[0]), b.design(next[1])}; of[0] != "a" || (of[1] == "b") != (batch%2 == 0) {
			t.Errorf("batch %d has points of %v", batch, of)
		}
	}
}
