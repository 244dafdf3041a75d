package replay

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
)

// Study replays searches many times.
type Study struct {
	Strategy string
	Budget   int // evaluations, 0 for no bound
	Replays  int
	Confirm  search.Confirmation
	Seed     uint64
}

// Report is what a study found. Ratios are relative to the true best.
type Report struct {
	Strategy    string  `json:"strategy"`
	Budget      int     `json:"budget"`
	Replays     int     `json:"replays"`
	Regret      float64 `json:"regret"`       // mean of true time of the winner / true best, minus one
	RegretP95   float64 `json:"regret_p95"`   // of the same
	Flips       float64 `json:"flips"`        // share of second tunings that chose another config
	Bias        float64 `json:"bias"`         // mean of reported / true time of the winner, minus one, over both tunings
	FalseFaster float64 `json:"false_faster"` // share that claims a gain over the default where there is none
	Evaluations float64 `json:"evaluations"`  // mean, distinct configs
	Samples     float64 `json:"samples"`      // mean
	MaxSamples  int     `json:"max_samples"`
}

// Run replays searches on models, which draw is asked for by number. Each is
// tuned twice on machines of different noise; the second time the first
// winner is the incumbent.
func (s Study) Run(ctx context.Context, draw func(int) *Model) (Report, error) {
	out := Report{Strategy: s.Strategy, Budget: s.Budget, Replays: s.Replays}
	var regrets []float64
	for i := range s.Replays {
		m := draw(i)
		seed := s.Seed + uint64(2*i)
		first, err := s.tune(ctx, m, seed, -1)
		if err != nil {
			return out, err
		}
		again, err := s.tune(ctx, m, seed+1, first.point)
		if err != nil {
			return out, err
		}
		best := minTruth(m.Truth)
		regrets = append(regrets, m.Truth[first.point]/best-1)
		n := float64(s.Replays)
		out.Regret += (m.Truth[first.point]/best - 1) / n
		out.Bias += (first.reported/m.Truth[first.point] + again.reported/m.Truth[again.point] - 2) / (2 * n)
		out.Flips += share(again.point != first.point, n)
		out.FalseFaster += share(first.claims && m.Truth[first.point] >= m.Truth[m.Default], n)
		out.Evaluations += float64(first.evaluations) / n
		out.Samples += float64(first.samples) / n
		out.MaxSamples = max(out.MaxSamples, first.samples)
	}
	out.RegretP95 = stat.Quantile(regrets, 0.95)
	return out, nil
}

func share(yes bool, n float64) float64 {
	if yes {
		return 1 / n
	}
	return 0
}

func minTruth(xs []float64) float64 {
	best := math.Inf(1)
	for _, x := range xs {
		if x < best { // NaN is never less
			best = x
		}
	}
	return best
}

// tuned is the outcome of one search.
type tuned struct {
	point       int
	reported    float64 // seconds
	claims      bool    // that the point beats the default
	evaluations int
	samples     int
}

func (s Study) tune(ctx context.Context, m *Model, seed uint64, incumbent int) (tuned, error) {
	strategy, err := search.ParseStrategy(s.Strategy)
	if err != nil {
		return tuned{}, err
	}
	required := m.Required
	if incumbent >= 0 {
		required = append(required[:len(required):len(required)], incumbent)
	}
	machine := m.Machine(seed)
	aa, err := s.aa().Measure(ctx, machine, m.Default, seed)
	if err != nil {
		return tuned{}, err
	}
	h := search.NewHunt(m.Space, machine, search.Budget{Evaluations: s.Budget}, m.Default, required,
		rand.New(rand.NewPCG(seed, 0x68756e74)))
	if err := strategy.Search(ctx, h); err != nil {
		return tuned{}, err
	}
	fs, err := h.Confirm(ctx, s.Confirm, record.StageFinals)
	if err != nil {
		return tuned{}, err
	}
	end, err := h.Conclude(ctx, fs, search.Ending{
		Preference: search.Preference{Band: s.Confirm.Band, Default: m.Default, Incumbent: incumbent, Neighbour: -1, Cost: func(i int) ep.Cost { return m.Costs[i] }},
		Rounds:     s.Confirm.MaxRounds / 2, Seed: seed, Band: record.Band{Policy: s.Confirm.Band, AA: aa.Spread},
	})
	if err != nil {
		return tuned{}, err
	}
	claims := end.Decision.Verdict == record.Faster
	return tuned{end.Winner.Point, end.Winner.Median, claims, h.Tried(), h.Samples()}, nil
}

// aa is how a sweep on a GPU measures the default against itself.
func (s Study) aa() search.AA {
	return search.AA{Band: s.Confirm.Band, Rounds: 20, MaxRounds: 200}
}

// Usual is the confirmation of a sweep on a GPU with a given tie band.
func Usual(band float64) search.Confirmation {
	return search.Confirmation{Finalists: 24, MinRounds: 10, MaxRounds: 50, Band: band}
}
