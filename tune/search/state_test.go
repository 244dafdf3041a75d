package search

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/record"
)

// steady is an Evaluator without noise. NaN in `truth` means a failure.
type steady struct {
	truth []float64
	round int
	calls int
}

func (s *steady) Spent() time.Duration { return 0 }

func (s *steady) Measure(_ context.Context, _ record.Stage, live []int, rounds int) ([]Sample, error) {
	s.calls++
	var out []Sample
	for range rounds {
		for _, i := range live {
			if !math.IsNaN(s.truth[i]) {
				out = append(out, Sample{i, s.round, s.truth[i] * (1 + 0.1*float64(s.round))})
			}
		}
		s.round++
	}
	return out, nil
}

// valley returns a space of 8 x 8 points. The best is (5, 2), and the default is (0, 0).
func valley(t *testing.T) (*Space, *steady) {
	t.Helper()
	s := newSpace(t, Grid{Kernel: "k", Axes: []Axis{ints("a", 0, 1, 2, 3, 4, 5, 6, 7), ints("b", 0, 1, 2, 3, 4, 5, 6, 7)}})
	e := &steady{truth: make([]float64, s.Len())}
	for i := range e.truth {
		c := s.Config(i)
		e.truth[i] = 1 + 0.05*math.Abs(float64(c.Int("a")-5)) + 0.05*math.Abs(float64(c.Int("b")-2))
	}
	e.truth[5*8+3] = math.NaN()
	return s, e
}

func TestEveryStrategyFindsAValley(t *testing.T) {
	for _, name := range StrategyNames() {
		strategy := mustParse(t, name)
		s, e := valley(t)
		h := NewState(s, e, Budget{}, 0, nil, rand.New(rand.NewPCG(1, 1)))
		if err := strategy(context.Background(), h); err != nil {
			t.Fatal(err)
		}
		fs, err := h.Finals(context.Background(), Protocol{Finalists: 5, MinRounds: 4, MaxRounds: 8, Band: 0.01}, "finals")
		if err != nil || fs[0].Point != 5*8+2 || math.Abs(fs[0].Effect-math.Log(1/1.35)) > 1e-9 {
			t.Errorf("%s: finals %+v, %v", name, fs[:min(2, len(fs))], err)
		}
		if !slices.ContainsFunc(fs, func(f Finalist) bool { return f.Point == 0 }) {
			t.Errorf("%s: the default is no finalist", name)
		}
	}
}

func TestBudgetBoundsEvaluations(t *testing.T) {
	for _, name := range StrategyNames() {
		for _, n := range []int{1, 3, 10, 33} {
			strategy, _ := ParseStrategy(name)
			s, e := valley(t)
			h := NewState(s, e, Budget{Evaluations: n}, 0, []int{7, 9}, rand.New(rand.NewPCG(2, 2)))
			if err := strategy(context.Background(), h); err != nil {
				t.Fatal(err)
			}
			if got := h.Tried(); got > max(n, 3) || got < min(n, 3) {
				t.Errorf("%s with %d evaluations tried %d", name, n, got)
			}
			for _, i := range []int{0, 7, 9} {
				if !slices.Contains(h.Measured(), i) {
					t.Errorf("%s with %d evaluations left out required point %d", name, n, i)
				}
			}
		}
	}
}

func TestEveryKernelIsDrawnFrom(t *testing.T) {
	s := newSpace(t, Grid{Kernel: "many", Axes: []Axis{ints("n", 0, 1, 2, 3, 4, 5, 6, 7), ints("m", 0, 1, 2, 3, 4, 5, 6, 7)}},
		Grid{Kernel: "few", Axes: []Axis{ints("n", 0, 1, 2, 3), ints("m", 0, 1)}})
	truth := slices.Repeat([]float64{3}, s.Len())
	truth[s.Len()-1] = 1
	h := NewState(s, &steady{truth: truth}, Budget{Evaluations: 20}, 0, nil, rand.New(rand.NewPCG(1, 1)))
	if err := bayes(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	if best := h.Ranked(h.Measured())[0]; best != s.Len()-1 {
		t.Errorf("a search of 20 of the %d configs missed the best config, which is of the smaller kernel", s.Len())
	}
}

func TestDefaultThatFailsEndsTheSearch(t *testing.T) {
	s, e := valley(t)
	h := NewState(s, e, Budget{}, 5*8+3, nil, rand.New(rand.NewPCG(1, 1)))
	if err := race(context.Background(), h); !errors.Is(err, ErrDefault) {
		t.Errorf("the search ends with %v", err)
	}
}

func TestScoresAreClearedOfDrift(t *testing.T) {
	s, e := valley(t)
	h := NewState(s, e, Budget{}, 0, nil, rand.New(rand.NewPCG(1, 1)))
	ctx := context.Background()
	for _, batch := range [][]int{{42}, {1}, {63}} {
		if err := h.Measure(ctx, "x", batch, 5); err != nil {
			t.Fatal(err)
		}
		e.round += 100
	}
	for _, i := range []int{42, 1, 63} {
		if want := math.Log(e.truth[i] / e.truth[0]); math.Abs(h.Score(i)-want) > 1e-9 {
			t.Errorf("point %d scores %v, want %v", i, h.Score(i), want)
		}
	}
	if h.Ranked(h.Measured())[0] != 42 || !math.IsInf(h.Score(2), 1) {
		t.Errorf("best is %v, an unmeasured point scores %v", h.Ranked(h.Measured()), h.Score(2))
	}
}

type slow struct {
	steady
	spent time.Duration
}

func (s *slow) Spent() time.Duration { return s.spent }

func (s *slow) Measure(ctx context.Context, stage record.Stage, live []int, rounds int) ([]Sample, error) {
	s.spent += time.Duration(len(live)*rounds) * time.Millisecond
	return s.steady.Measure(ctx, stage, live, rounds)
}

func TestDrawsUnderATimeLimit(t *testing.T) {
	var grids []Grid
	for k := range 12 {
		grids = append(grids, Grid{Kernel: string(rune('a' + k)), Axes: []Axis{ints("n", 0, 1, 2, 3, 4, 5, 6, 7), ints("m", 0, 1, 2, 3)}})
	}
	s := newSpace(t, grids...)
	truth := slices.Repeat([]float64{3}, s.Len())
	truth[0] = 1
	h := NewState(s, &slow{steady: steady{truth: truth}, spent: 400 * time.Millisecond}, Budget{Time: time.Second}, 0, nil, rand.New(rand.NewPCG(1, 1)))
	if err := bayes(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	drawn := map[string]int{}
	for _, i := range h.Measured() {
		drawn[s.Config(i).Kernel]++
	}
	for _, g := range grids {
		if drawn[g.Kernel] < 2 {
			t.Errorf("%d of %d draws for kernel %s", drawn[g.Kernel], len(h.Measured()), g.Kernel)
		}
	}
}

// noisy is steady with noise of 5 %.
type noisy struct {
	steady
	rng   *rand.Rand
	count map[int]int
}

func (n *noisy) Measure(ctx context.Context, stage record.Stage, live []int, rounds int) ([]Sample, error) {
	out, err := n.steady.Measure(ctx, stage, live, rounds)
	for i := range out {
		out[i].Seconds *= math.Exp(0.05 * n.rng.NormFloat64())
		n.count[out[i].Point]++
	}
	return out, err
}

func TestGridTo(t *testing.T) {
	s, e := valley(t)
	n := &noisy{*e, rand.New(rand.NewPCG(3, 3)), map[int]int{}}
	h := NewState(s, n, Budget{}, 0, nil, rand.New(rand.NewPCG(1, 1)))
	h.Band = 0.01
	if err := mustParse(t, "grid:200")(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	if best, slow := n.count[5*8+2], n.count[0*8+7]; best != 200 || slow != 10 {
		t.Errorf("the fastest point has %d samples, a slow one %d, want 200 and 10", best, slow)
	}
	if got := h.Ranked(h.Measured())[0]; got != 5*8+2 {
		t.Errorf("the fastest is %d", got)
	}
	for _, name := range []string{"grid:9", "grid:100001", "grid:", "grid:x"} {
		if _, err := ParseStrategy(name); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
