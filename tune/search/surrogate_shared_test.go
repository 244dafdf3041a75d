package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/stat"
)

// twoKernels returns a search that measured all points of kernel a, and the points `ofB` of kernel b. Only b
// has the parameter pdl.
func twoKernels(t *testing.T, seconds func(kernel string, blocks int) float64, ofB ...int) *bayesSearch {
	t.Helper()
	blocks := ints("blocks", 1, 2, 4, 8, 16)
	space := newSpace(t, Grid{Kernel: "a", Axes: []Axis{blocks, ints("threads", 1, 2)}},
		Grid{Kernel: "b", Axes: []Axis{blocks, ints("threads", 1, 2), ints("pdl", 0, 1)}})
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

// TestKernelsLearnFromEachOther: kernel b is tried with the value that was fast in kernel a.
func TestKernelsLearnFromEachOther(t *testing.T) {
	b := twoKernels(t, func(kernel string, blocks int) float64 {
		out := 1 + math.Abs(math.Log2(float64(blocks))-3)
		if kernel == "b" {
			out *= 1.1
		}
		return out
	}, 0)
	next := b.next(1)
	if c := b.Space.Config(next[0]); c.Kernel != "b" || c.Int("blocks") != 8 {
		t.Errorf("the next point is %s", c.Key())
	}
}

// TestInfluence: kernels influence each other if the parameter blocks has the same effect in both.
func TestInfluence(t *testing.T) {
	influence := func(of func(blocks int) int) float64 {
		b := twoKernels(t, func(kernel string, blocks int) float64 {
			if kernel == "b" {
				blocks = of(blocks)
			}
			return 1 + float64(blocks)
		}, 0, 3, 5, 8, 10, 13, 15, 16, 18)
		b.next(1)
		return b.shared.weight(b.kernels[1]) * b.shared.surrogate.kernels.params
	}
	if x := influence(func(blocks int) int { return blocks }); x < 0.7 {
		t.Errorf("the same effect: an influence of %.2f", x)
	}
	if x := influence(func(blocks int) int { return 16 / blocks }); x > 0.1 {
		t.Errorf("the opposite effect: an influence of %.2f", x)
	}
}

func TestSharedCoordinates(t *testing.T) {
	b := twoKernels(t, func(string, int) float64 { return 1 })
	a, other := b.shared.coordinates(b.Space, 0), b.shared.coordinates(b.Space, 10)
	if !slices.Equal(b.shared.names, []string{"blocks", "threads", "pdl"}) || !slices.Equal(a, []float64{0, 0, 0.5, 0}) || !slices.Equal(other, []float64{0, 0, 0, 1}) {
		t.Errorf("%v: %v and %v", b.shared.names, a, other)
	}
	p := newCrossKernelSurrogate([]int{3}, usualPriors)
	same, apart, far := p.correlation([]float64{1, 0}, []float64{1, 0}), p.correlation([]float64{1, 0}, []float64{1, 1}), p.correlation([]float64{1, 0}, []float64{99, 0})
	if same != 1 || math.Abs(apart-(1-usualPriors.level)*usualPriors.params) > 1e-9 || math.Abs(far-usualPriors.level) > 1e-3 {
		t.Errorf("correlation %v with itself, %v with another kernel, %v within the kernel", same, apart, far)
	}
}

func TestLeaveOneOut(t *testing.T) {
	p := newSurrogate([]int{3}, usualPriors)
	p.fit([][]float64{{0}, {1}, {2}, {3}, {4}}, []float64{0, 0.1, 2, 0.3, 0.4})
	if l := p.leaveOneOut(); slices.Index(l, slices.Min(l)) != 2 {
		t.Errorf("the third must have the least density: %v", l)
	}
	p.fit([][]float64{{0}, {1}}, []float64{0, 1})
	c := p.correlation([]float64{0}, []float64{1}) / (1 + p.nugget)
	off := 1 - p.mean - c*(0-p.mean)
	variance := p.variance * (1 + p.nugget) * (1 - c*c)
	if got, want := p.leaveOneOut()[1], -0.5*(math.Log(variance)+off*off/variance); math.Abs(got-want) > 1e-9 {
		t.Errorf("log density %v, want %v", got, want)
	}
	if l := newSurrogate([]int{3}, usualPriors).leaveOneOut(); len(l) != 0 {
		t.Errorf("densities without points: %v", l)
	}
}

func TestInitialPerKernel(t *testing.T) {
	b := twoKernels(t, func(string, int) float64 { return 1 })
	for budget, want := range map[Budget]int{{}: 2, {Evaluations: 16}: 2, {Evaluations: 15}: 1, {Time: time.Hour}: 2} {
		if b.budget = budget; b.initialPerKernel() != want {
			t.Errorf("%+v: %d draws, want %d", budget, b.initialPerKernel(), want)
		}
	}
}

func TestInitialQuota(t *testing.T) {
	b := twoKernels(t, func(string, int) float64 { return 1 })
	b.initial = 10 // points measured by twoKernels
	for _, c := range []struct {
		budget  Budget
		kernels int
		want    int
	}{
		{Budget{Evaluations: 25}, 2, 8},
		{Budget{Evaluations: 25}, 1, 10},
		{Budget{Evaluations: 49}, 2, 16},
		{Budget{Evaluations: 50}, 2, 20},
	} {
		b.budget, b.kernels = c.budget, newBayesSearch(b.State).kernels[:c.kernels]
		if got := b.initialQuota(); got != c.want {
			t.Errorf("%+v, %d kernels: %d initial samples, want %d", c.budget, c.kernels, got, c.want)
		}
	}
}

func TestFirstSamples(t *testing.T) {
	space := newSpace(t, Grid{Kernel: "a", Axes: []Axis{ints("sms", 16, 32, 64, 132), ints("threads", 256, 512)}},
		Grid{Kernel: "b", Axes: []Axis{ints("sms", 16, 32, 64, 132), ints("pdl", 0, 1), ints("wait", 0, 8, 16)}},
		Grid{Kernel: "c", Axes: []Axis{ints("sms", 8, 64), ints("threads", 128, 256)}})
	dflt, ok := space.Index(ep.Config{Kernel: "a", Values: map[string]ep.Value{"sms": "132", "threads": "256"}})
	if !ok {
		t.Fatal("the default is not in the space")
	}
	for seed := range uint64(20) {
		s := NewState(space, nil, Budget{Evaluations: 20}, dflt, nil, rand.New(rand.NewPCG(seed, 1)))
		drawn := newBayesSearch(s).nextInitial()
		if len(drawn) != 2 {
			t.Fatalf("%d initial samples, want 2", len(drawn))
		}
		b, c := space.Config(drawn[0]), space.Config(drawn[1])
		if b.Kernel != "b" || b.Int("sms") != 132 || b.Int("wait") != 8 || c.Kernel != "c" || c.Int("sms") != 64 || c.Int("threads") != 256 {
			t.Errorf("seed %d: %s and %s", seed, b.Key(), c.Key())
		}
	}
}
