package replay

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/epbench/epbench/tune/search"
)

func study(t *testing.T, s Study, draw func(int) *Model) Report {
	t.Helper()
	s.Protocol = search.OnGPU()
	r, err := s.Run(context.Background(), draw)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	return r
}

func synthetic(i int) *Model { return Synthetic(SyntheticNoise(0.02), uint64(i)) }

// TestRaceReachesItsTargets: the targets are those of docs/search.md.
func TestRaceReachesItsTargets(t *testing.T) {
	if testing.Short() {
		t.Skip("a simulation on one goroutine: the race detector has nothing to find")
	}
	t.Parallel()
	r := study(t, Study{Strategy: "race", Replays: 60, Seed: 1}, synthetic)
	if r.Regret > 0.0035 || r.Flips > 0.40 || r.MaxSamples > 8000 || math.Abs(r.Bias) > 0.002 {
		t.Errorf("race misses a target: %+v", r)
	}
}

// TestDefaultStrategyReachesItsTargets: without starts, among three kernels of which the
// default's is far behind.
func TestDefaultStrategyReachesItsTargets(t *testing.T) {
	if testing.Short() {
		t.Skip("a simulation on one goroutine: the race detector has nothing to find")
	}
	for budget, most := range map[int]float64{50: 0.02, 155: 0.005} {
		t.Run(fmt.Sprint(budget), func(t *testing.T) {
			t.Parallel()
			draw := func(i int) *Model { return SyntheticKernels(SyntheticNoise(0.006), uint64(i)) }
			if r := study(t, Study{Strategy: search.DefaultStrategy, Budget: budget, Replays: 24, Seed: 1}, draw); r.Regret > most {
				t.Errorf("regret %.4f at %d configs, want at most %.4f", r.Regret, budget, most)
			}
		})
	}
}

func TestMoreBudgetIsBetter(t *testing.T) {
	for _, name := range search.StrategyNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			few := study(t, Study{Strategy: name, Budget: 25, Replays: 12, Seed: 1}, synthetic)
			many := study(t, Study{Strategy: name, Budget: 200, Replays: 12, Seed: 1}, synthetic)
			if many.Regret > few.Regret || many.Regret > 0.005 || many.Evaluations > 200 || few.Evaluations > 25 {
				t.Errorf("regret %.4f after %v evaluations, %.4f after %v", few.Regret, few.Evaluations, many.Regret, many.Evaluations)
			}
		})
	}
}

// TestIdenticalKernelsAreNotFaster is the A/A test of the whole search: where
// all configs are the same, a claim that one is faster is false.
func TestIdenticalKernelsAreNotFaster(t *testing.T) {
	for _, sigma := range []float64{0.005, 0.01, 0.02} {
		t.Run(fmt.Sprint(sigma), func(t *testing.T) {
			t.Parallel()
			r := study(t, Study{Strategy: "race", Budget: 40, Replays: 60, Seed: 7}, func(i int) *Model {
				m := Synthetic(SyntheticNoise(sigma), uint64(i))
				for k := range m.Truth {
					m.Truth[k] = 1
				}
				return m
			})
			if r.FalseFaster > 0.05 {
				t.Errorf("%.1f %% of searches claim a gain over an identical default", 100*r.FalseFaster)
			}
		})
	}
}
