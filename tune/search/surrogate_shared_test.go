package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/stat"
)

// relatives is a search over kernels a and b with the parameters blocks and threads, of which
// b has one of its own, too. All points of a were measured and the given ones of b.
func relatives(t *testing.T, seconds func(kernel string, blocks int) float64, ofB ...int) *bayesSearch {
	t.Helper()
	blocks := ints("blocks", 1, 2, 4, 8, 16)
	space, _, err := NewSpace(
		Grid{Kernel: "a", Axes: []Axis{blocks, ints("threads", 1, 2)}},
		Grid{Kernel: "b", Axes: []Axis{blocks, ints("threads", 1, 2), ints("pdl", 0, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	s := NewState(space, nil, Budget{}, 0, nil, rand.New(rand.NewPCG(1, 1)))
	measure := func(point int) {
		c := space.Config(point)
		s.obs = append(s.obs, stat.Obs{Item: s.item(point), Log: math.Log(seconds(c.Kernel, c.Int("blocks")))})
	}
	for i := range 10 {
		measure(i)
	}
	for _, i := range ofB {
		measure(10 + i)
	}
	return newBayesSearch(s)
}

// TestKernelsLearnFromEachOther: where a was fast with 8 blocks, b is tried with 8 blocks once
// one point of it is known, though it is a tenth slower.
func TestKernelsLearnFromEachOther(t *testing.T) {
	b := relatives(t, func(kernel string, blocks int) float64 {
		out := 1 + math.Abs(math.Log2(float64(blocks))-3)
		if kernel == "b" {
			out *= 1.1
		}
		return out
	}, 0)
	next := b.next(1)
	if c := b.Space.Config(next[0]); c.Kernel != "b" || c.Int("blocks") != 8 {
		t.Errorf("next is %s", c.Key())
	}
}

// TestTrust: the shared process has the say where b goes with a, and not where blocks do the
// contrary in b.
func TestTrust(t *testing.T) {
	weight := func(of func(blocks int) int) float64 {
		b := relatives(t, func(kernel string, blocks int) float64 {
			if kernel == "b" {
				blocks = of(blocks)
			}
			return 1 + float64(blocks)
		}, 0, 3, 5, 8, 10, 13, 15, 16, 18)
		b.next(1)
		return b.shared.weight(b.kernels[1])
	}
	if trust := weight(func(blocks int) int { return blocks }); trust < 0.7 {
		t.Errorf("kernels that are alike: a weight of %.2f", trust)
	}
	if trust := weight(func(blocks int) int { return 16 / blocks }); trust > 0.3 {
		t.Errorf("kernels that differ: a weight of %.2f", trust)
	}
}

// TestSharedCoordinates: values have the same place in all kernels, a parameter that a kernel
// lacks is in the middle, and the kernel comes last.
func TestSharedCoordinates(t *testing.T) {
	b := relatives(t, func(string, int) float64 { return 1 })
	a, other := b.shared.coordinates(b.Space, 0), b.shared.coordinates(b.Space, 10)
	if !slices.Equal(b.shared.names, []string{"blocks", "threads", "pdl"}) || !slices.Equal(a, []float64{0, 0, 0.5, 0}) || !slices.Equal(other, []float64{0, 0, 0, 1}) {
		t.Errorf("%v: %v and %v", b.shared.names, a, other)
	}
	p := newCrossKernelSurrogate(1)
	same, apart, far := p.correlation([]float64{1, 0}, []float64{1, 0}), p.correlation([]float64{1, 0}, []float64{1, 1}), p.correlation([]float64{1, 0}, []float64{99, 0})
	if same != 1 || math.Abs(apart-(1-usualLevel)*usualParams) > 1e-9 || math.Abs(far-usualLevel) > 1e-3 {
		t.Errorf("correlation %v with itself, %v with another kernel, %v within the kernel", same, apart, far)
	}
}

// TestForetold: a score that its neighbours contradict is less likely than one they agree with,
// and of two points each is foretold from the other.
func TestForetold(t *testing.T) {
	p := newSurrogate(1)
	p.fit([][]float64{{0}, {1}, {2}, {3}, {4}}, []float64{0, 0.1, 2, 0.3, 0.4})
	if l := p.leaveOneOut(); slices.Index(l, slices.Min(l)) != 2 {
		t.Errorf("the third is the least likely: %v", l)
	}
	p.fit([][]float64{{0}, {1}}, []float64{0, 1})
	c := p.correlation([]float64{0}, []float64{1}) / (1 + p.nugget)
	off := 1 - p.mean - c*(0-p.mean)
	variance := p.variance * (1 + p.nugget) * (1 - c*c)
	if got, want := p.leaveOneOut()[1], -0.5*(math.Log(variance)+off*off/variance); math.Abs(got-want) > 1e-9 {
		t.Errorf("log density %v, want %v", got, want)
	}
	if l := newSurrogate(1).leaveOneOut(); len(l) != 0 {
		t.Errorf("of nothing: %v", l)
	}
}

// TestDrawsEach: two of every kernel where that leaves most of the budget, else one.
func TestDrawsEach(t *testing.T) {
	b := relatives(t, func(string, int) float64 { return 1 })
	for budget, want := range map[Budget]int{{}: 2, {Evaluations: 16}: 2, {Evaluations: 15}: 1, {Time: time.Hour}: 2} {
		if b.budget = budget; b.initialPerKernel() != want {
			t.Errorf("%+v: %d draws, want %d", budget, b.initialPerKernel(), want)
		}
	}
}
