package search

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// bowl is an Evaluator. Its fastest point has the value 7 in all parameters.
type bowl struct {
	space    *Space
	round    int
	measured map[int]bool
}

func (b *bowl) Spent() time.Duration { return 0 }

func (b *bowl) seconds(point int) float64 {
	out := 1.0
	for _, v := range b.space.Config(point).Values {
		n, _ := v.Int()
		out += 0.05 * math.Abs(float64(n-7))
	}
	return out
}

func (b *bowl) Measure(_ context.Context, _ record.Stage, live []int, rounds int) (out []Sample, err error) {
	for range rounds {
		for _, i := range live {
			b.measured[i] = true
			out = append(out, Sample{i, b.round, b.seconds(i)})
		}
		b.round++
	}
	return out, nil
}

// TestMillionPoints: a search over 2^20 points holds at most 64 MiB.
func TestMillionPoints(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	axes := []Axis{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		axes = append(axes, ints(name, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	s, info, err := NewSpace(Grid{Kernel: "k", Axes: axes, Rules: []Rule{func(c ep.Config) string {
		if c.Int("a") < 2 {
			return "a is too small"
		}
		return ""
	}}})
	if err != nil || info[0].Points != 1<<20 || info[0].Legal != 7<<17 || s.Len() != 7<<17 {
		t.Fatalf("%+v, %v", info, err)
	}
	counted := time.Since(start)
	b := &bowl{space: s, measured: map[int]bool{}}
	auto := mustParse(t, "auto")
	state := NewState(s, b, Budget{Evaluations: 100}, 0, nil, rand.New(rand.NewPCG(1, 0)))
	if err := auto(context.Background(), state); err != nil {
		t.Fatal(err)
	}
	searched := time.Since(start) - counted
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := float64(after.HeapAlloc-before.HeapAlloc) / (1 << 20)
	best := math.Inf(1)
	for i := range b.measured {
		best = min(best, b.seconds(i))
	}
	t.Logf("counted in %v, searched 100 configs in %v, %.1f MiB held, best %.2f", counted, searched, held, best)
	if len(b.measured) > 100 || best > 1.3 {
		t.Errorf("%d configs measured, the best takes %.2f s, but 1 s is possible", len(b.measured), best)
	}
	if held > 64 {
		t.Errorf("%.0f MiB held", held)
	}
	runtime.KeepAlive(state)
}

// TestCandidates: after several batches every point was predicted.
func TestCandidates(t *testing.T) {
	var axes []Axis
	for _, name := range []string{"a", "b", "c", "d"} {
		axes = append(axes, ints(name, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10))
	}
	space := newSpace(t, Grid{Kernel: "k", Axes: axes})
	s := NewState(space, &bowl{space: space, measured: map[int]bool{}}, Budget{}, 0, nil, rand.New(rand.NewPCG(1, 1)))
	if err := s.Measure(t.Context(), record.StageScreen, []int{0, 4321, 9999}, 1); err != nil {
		t.Fatal(err)
	}
	k := newBayesSearch(s).kernels[0]
	seen := map[int]bool{}
	for range 1 + space.Len()/maxPredicted {
		k.batches++
		now := k.candidates(s)
		if len(now) > maxPredicted+fastestNeighbours*4*9 || !slices.IsSorted(now) {
			t.Errorf("%d candidates, in order: %t", len(now), slices.IsSorted(now))
		}
		for _, i := range now {
			seen[i] = true
		}
		for _, i := range space.Neighbors(4321) {
			if !slices.Contains(now, i) {
				t.Fatalf("the neighbour %s of the fastest point is not predicted", space.Config(i).Key())
			}
		}
	}
	if len(seen) != space.Len()-3 || seen[4321] {
		t.Errorf("%d points were predicted, want all %d that were not measured", len(seen), space.Len()-3)
	}
}
