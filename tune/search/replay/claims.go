package replay

import (
	"context"
	"math/rand/v2"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
)

// A Scenario is a kind of noise. All configs of its space take equal time, so every gain that a search claims is false.
type Scenario struct {
	Name  string
	Noise Noise

	// BetweenSessions says that the noise differs between sessions, and is constant in each session.
	BetweenSessions bool
}

// Scenarios lists the kinds of noise.
func Scenarios() []Scenario {
	const sigma = 0.01
	return []Scenario{
		{"independent", Noise{Sigma: sigma}, false},
		{"spikes", Noise{Sigma: sigma, Spikes: 0.02, SpikeBy: 0.2}, false},
		{"machine, correlation 0.9", Noise{Sigma: sigma, Common: 0.02, CommonMemory: 0.9}, false},
		{"drift", Noise{Sigma: sigma, Drift: 0.01, DriftMemory: 0.999, WarmUp: 0.015, WarmFor: 300}, false},
		{"placement 2 %", Noise{Sigma: sigma, Placement: 0.02}, true},
		{"clock's tick 2 %", Noise{Sigma: sigma, Tick: 0.02}, false},
		{"each config, correlation 0.9", Noise{Sigma: sigma, Memory: 0.9}, true},
		{"each config, modes that dwell", Noise{Sigma: sigma, Mode: 0.02, ModeStays: 0.98}, true},
	}
}

const identical = 64

// Identical makes a model of configs that take the same time.
func Identical(noise Noise) *Model {
	space, _, err := search.NewSpace(search.Grid{Kernel: "identical", Axes: []search.Axis{axis("a", 1, 2, 3, 4, 5, 6, 7, 8), axis("b", 1, 2, 3, 4, 5, 6, 7, 8)}})
	if err != nil {
		panic(err)
	}
	m := &Model{Space: space, Incumbent: -1, Neighbour: -1, Noise: noise}
	for range identical {
		m.Truth, m.Costs = append(m.Truth, 1), append(m.Costs, ep.Cost{})
	}
	return m
}

// Claims searches the identical configs of a scenario many times, and reports false claims of gains. Unlike a sweep, it
// does not prefer the default among ties.
func (s Study) Claims(ctx context.Context, c Scenario) (Report, error) {
	m := Identical(c.Noise)
	out := Report{Strategy: s.Strategy, Replays: s.Replays}
	n, judged, covered := float64(s.Replays), 0.0, 0.0
	for i := range s.Replays {
		machine := m.Machine(s.Seed + uint64(i))
		aa, err := s.Protocol.MeasureAA(ctx, machine, m.Default, 0)
		if err != nil {
			return out, err
		}
		h := search.NewState(m.Space, machine, search.Budget{}, m.Default, nil, rand.New(rand.NewPCG(s.Seed, uint64(i))))
		strategy, err := search.ParseStrategy(s.Strategy)
		if err != nil {
			return out, err
		}
		if err := strategy(ctx, h); err != nil {
			return out, err
		}
		protocol := s.Protocol.After(aa)
		finals, err := h.Finals(ctx, protocol, "finals")
		if err != nil {
			return out, err
		}
		preference := search.Preference{Default: -1, Incumbent: finals[0].Point, Neighbour: -1, Cost: func(int) ep.Cost { return ep.Cost{} }}
		end, err := h.Conclude(ctx, finals, search.DecisionRules{Preference: preference, Protocol: protocol, AA: aa})
		if err != nil {
			return out, err
		}
		if err := s.overSessions(ctx, h, machine, &end); err != nil {
			return out, err
		}
		d := end.Decision
		out.Samples += float64(h.Samples()) / n
		switch {
		case d.Cause == "noisy":
			out.Noisy += 1 / n
		case d.Challenger.Key() != d.Default.Key():
			judged++
			if d.ChallengerGain.Low <= 1 && 1 <= d.ChallengerGain.High {
				covered++
			}
		}
		if !d.KeepsDefault() {
			out.FalseFaster += 1 / n
		}
	}
	out.Covered = covered / judged
	return out, nil
}
