package replay

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
)

func study(t *testing.T, s Study, draw func(int) *Model) Report {
	t.Helper()
	s.Protocol = search.OnGPU()
	r, err := s.Run(context.Background(), draw)
	if err != nil {
		t.Fatal(err)
	}
	shown := r
	shown.steps = nil
	t.Logf("%+v", shown)
	return r
}

func synthetic(i int) *Model { return Synthetic(SyntheticNoise(0.02), uint64(i)) }

// simulates skips a slow simulation in short runs.
func simulates(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a simulation on one goroutine")
	}
}

func TestOnce(t *testing.T) {
	s := Study{Strategy: search.DefaultStrategy, Budget: 10, Replays: 3, Seed: 1}
	twice := study(t, s, synthetic)
	s.Once = true
	once := study(t, s, synthetic)
	if once.Flips != 0 || once.Regret != twice.Regret || !reflect.DeepEqual(once.Searches, twice.Searches) || len(once.Searches) != 3 {
		t.Errorf("once %+v, twice %+v", once, twice)
	}
	sum := 0.0
	for i, r := range once.Searches {
		at, ok := synthetic(i).Space.Index(r.Winner)
		if !ok || r.Evaluations > 10 || math.Abs(synthetic(i).Truth[at]/synthetic(i).best()-1-r.Regret) > 1e-12 {
			t.Errorf("search %d: %+v", i, r)
		}
		sum += r.Regret / 3
	}
	if math.Abs(sum-once.Regret) > 1e-12 {
		t.Errorf("mean regret %g, want %g", once.Regret, sum)
	}
}

func TestRaceReachesItsTargets(t *testing.T) {
	simulates(t)
	t.Parallel()
	r := study(t, Study{Strategy: "race", Replays: 300, Seed: 1}, synthetic) // with 60 replays, chance alone changes the bias by 0.002
	if r.Regret > 0.0035 || r.Flips > 0.40 || r.MaxSamples > 8000 || math.Abs(r.Bias) > 0.002 {
		t.Errorf("race misses a target: %+v", r)
	}
}

func TestDefaultStrategyReachesItsTargets(t *testing.T) {
	simulates(t)
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
	simulates(t)
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

func identicalConfigs(sigma float64) *Model {
	m := Synthetic(SyntheticNoise(sigma), 1)
	for k := range m.Truth {
		m.Truth[k] = 1
	}
	return m
}

func TestFalseClaims(t *testing.T) {
	simulates(t)
	t.Parallel()
	r := study(t, Study{Strategy: search.DefaultStrategy, Budget: 14, Replays: 1000, Seed: 7}, func(int) *Model { return identicalConfigs(0.01) })
	if r.FalseFaster > 0.05 {
		t.Errorf("%.1f %% of 2,000 searches claim a gain over an identical default", 100*r.FalseFaster)
	}
	t.Logf("%.2f %% of 2,000 searches claim a gain", 100*r.FalseFaster)
}

func TestIdenticalKernelsAreNotFaster(t *testing.T) {
	simulates(t)
	for _, sigma := range []float64{0.005, 0.01, 0.02} {
		t.Run(fmt.Sprint(sigma), func(t *testing.T) {
			t.Parallel()
			r := study(t, Study{Strategy: "race", Budget: 40, Replays: 60, Seed: 7}, func(int) *Model { return identicalConfigs(sigma) })
			if r.FalseFaster > 0.05 {
				t.Errorf("%.1f %% of searches claim a gain over an identical default", 100*r.FalseFaster)
			}
			t.Logf("%.2f %% of searches claim a gain", 100*r.FalseFaster)
		})
	}
}

func TestFalseConfirmations(t *testing.T) {
	simulates(t)
	for _, sigma := range []float64{0.005, 0.01, 0.02} {
		m := identicalConfigs(sigma)
		const searches = 2000
		claims := 0
		for i := range searches {
			machine, p := m.Machine(uint64(i)), search.OnGPU()
			aa, err := p.MeasureAA(t.Context(), machine, m.Default, 0)
			if err != nil {
				t.Fatal(err)
			}
			h := search.NewState(m.Space, machine, search.Budget{}, m.Default, nil, rand.New(rand.NewPCG(uint64(i), 1)))
			end, err := h.Conclude(t.Context(), []search.Finalist{{Point: (m.Default + 1) % m.Space.Len()}}, search.DecisionRules{
				Preference: search.Preference{Default: m.Default, Incumbent: -1, Neighbour: -1, Cost: func(i int) ep.Cost { return m.Costs[i] }},
				Protocol:   p.After(aa), AA: aa,
			})
			if err != nil {
				t.Fatal(err)
			}
			if end.Decision.Verdict == record.Faster {
				claims++
			}
		}
		t.Logf("noise %g: %d of %d", sigma, claims, searches)
		if claims > searches/20 {
			t.Errorf("noise %g: %d of %d confirmations claim a gain over an identical default", sigma, claims, searches)
		}
	}
}

// TestTimeIsKept: a strategy exceeds its time limit by at most 5 %.
func TestTimeIsKept(t *testing.T) {
	simulates(t)
	for _, name := range search.StrategyNames() {
		for _, limit := range []time.Duration{3 * time.Second, 10 * time.Second, 60 * time.Second} {
			t.Run(name+" "+limit.String(), func(t *testing.T) {
				t.Parallel()
				m := SyntheticKernels(SyntheticNoise(0.004), 3)
				m.Pace = record.Pace{Config: 0.018, Sample: 0.001}
				r := study(t, Study{Strategy: name, Time: limit, Replays: 1, Seed: 1}, func(int) *Model { return m })
				if r.Seconds > 1.05*limit.Seconds() || r.Seconds < 0.5*limit.Seconds() && int(r.Evaluations) < m.Space.Len() {
					t.Errorf("took %.2f s of %v and tried %.0f configs", r.Seconds, limit, r.Evaluations)
				}
				if whole := int(r.Evaluations) == m.Space.Len(); name == search.DefaultStrategy && whole != (limit == 60*time.Second) {
					t.Errorf("tried %.0f of %d configs in %v", r.Evaluations, m.Space.Len(), limit)
				}
			})
		}
	}
}

func TestCommonNoiseCancels(t *testing.T) {
	m := Synthetic(Noise{Sigma: 0.002, Common: 0.5}, 1)
	live := []int{m.Default, (m.Default + 1) % m.Space.Len()}
	want := math.Log(m.Truth[live[1]] / m.Truth[live[0]])
	samples, err := m.Machine(1).Measure(t.Context(), record.StageScreen, live, 40)
	if err != nil {
		t.Fatal(err)
	}
	var rounds, ratios []float64
	for i := 0; i < len(samples); i += 2 {
		a, b := samples[i], samples[i+1]
		if a.Point != live[0] {
			a, b = b, a
		}
		rounds, ratios = append(rounds, math.Log(a.Seconds)), append(ratios, math.Log(b.Seconds/a.Seconds))
	}
	if spread := stat.Quantile(rounds, 0.9) - stat.Quantile(rounds, 0.1); spread < 0.5 {
		t.Errorf("rounds differ by %.3f: the test shows nothing", spread)
	}
	if got := stat.Median(ratios); math.Abs(got-want) > 0.02 {
		t.Errorf("the ratio is %.4f, want %.4f", got, want)
	}
}
