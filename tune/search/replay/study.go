package replay

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
)

// A Study replays searches many times.
type Study struct {
	Label    string // of the budget
	Strategy string
	Budget   int           // configs, 0 for no bound
	Share    float64       // Budget as a share of the space
	Time     time.Duration // of a search, 0 for no bound
	Sessions int           // further sessions for the challenger
	Replays  int
	Once     bool // search each model once; Flips is then 0
	Protocol search.Protocol
	Seed     uint64
}

// A Report holds the results of a study.
type Report struct {
	Strategy    string  `json:"strategy"`
	Budget      int     `json:"budget"`
	Replays     int     `json:"replays"`
	Regret      float64 `json:"regret"` // mean of (winner's true time / least true time) - 1
	RegretP95   float64 `json:"regret_p95"`
	RegretMax   float64 `json:"regret_max"`
	Flips       float64 `json:"flips"`        // share of replays whose two winners differ
	Bias        float64 `json:"bias"`         // mean of (winner's reported time / its true time) - 1
	FalseFaster float64 `json:"false_faster"` // share of searches that claim a false gain
	Evaluations float64 `json:"evaluations"`  // mean
	Samples     float64 `json:"samples"`      // mean
	MaxSamples  int     `json:"max_samples"`  // of one search
	Missed      float64 `json:"missed"`       // mean of SearchResult.Missed
	Seconds     float64 `json:"seconds"`      // mean wall time, 0 if unknown
	Covered     float64 `json:"covered"`      // share of challengers' intervals that contain the true gain
	Noisy       float64 `json:"noisy"`        // share of searches too noisy to decide

	Searches []SearchResult `json:"searches"` // first search of each replay

	steps [][]step
}

// A SearchResult is the result of one search.
type SearchResult struct {
	Model       string    `json:"model"`
	Winner      ep.Config `json:"winner"`
	Regret      float64   `json:"regret"`      // (winner's true time / least true time) - 1
	Missed      float64   `json:"missed"`      // (true time of the best config tried / least true time) - 1
	Evaluations int       `json:"evaluations"` // distinct configs
	Samples     int       `json:"samples"`
	Seconds     float64   `json:"seconds"` // wall time at the recorded pace, 0 if unknown
}

// Run replays searches on models: draw(i) returns the model of replay i. Unless Once is set, each model is searched
// twice. The first winner is the incumbent of the second search.
func (s Study) Run(ctx context.Context, draw func(int) *Model) (Report, error) {
	out := Report{Strategy: s.Strategy, Budget: s.Budget, Replays: s.Replays}
	var regrets []float64
	judged, covered := 0.0, 0.0
	n := float64(s.Replays)
	for i := range s.Replays {
		m := draw(i)
		all, err := s.searches(ctx, m, s.Seed+uint64(2*i))
		if err != nil {
			return out, err
		}
		first, times := all[0], float64(len(all))
		if all[len(all)-1].point != first.point {
			out.Flips += 1 / n
		}
		for _, x := range all {
			out.Bias += (x.reported/m.Truth[x.point] - 1) / (times * n)
			if x.claims && m.Truth[x.point] >= m.Truth[m.Default] {
				out.FalseFaster += 1 / (times * n)
			}
			switch {
			case x.noisy:
				out.Noisy += 1 / (times * n)
			case x.challenges:
				judged++
				if x.covers {
					covered++
				}
			}
		}
		r := SearchResult{m.Name, m.Space.Config(first.point), m.Truth[first.point]/m.best() - 1, first.tried/m.best() - 1,
			first.evaluations, first.samples, first.seconds}
		out.Searches, out.steps = append(out.Searches, r), append(out.steps, first.steps)
		regrets = append(regrets, r.Regret)
		out.Regret += r.Regret / n
		out.Evaluations += float64(r.Evaluations) / n
		out.Samples += float64(r.Samples) / n
		out.Missed += r.Missed / n
		out.Seconds += r.Seconds / n
		out.MaxSamples = max(out.MaxSamples, r.Samples)
	}
	out.RegretP95, out.RegretMax = stat.Quantile(regrets, 0.95), stat.Quantile(regrets, 1)
	out.Covered = covered / judged
	return out, nil
}

func (s Study) searches(ctx context.Context, m *Model, seed uint64) ([]tunedResult, error) {
	first, err := s.tune(ctx, m, seed, -1)
	if err != nil || s.Once {
		return []tunedResult{first}, err
	}
	again, err := s.tune(ctx, m, seed+1, first.point)
	return []tunedResult{first, again}, err
}

func (s Study) evaluations(m *Model) int {
	if s.Share > 0 {
		return max(1, int(s.Share*float64(m.Space.Len())+0.5))
	}
	return s.Budget
}

func (m *Model) best() float64 {
	return slices.Min(slices.DeleteFunc(slices.Clone(m.Truth), math.IsNaN))
}

func (m *Model) bestOf(points []int) float64 {
	best := math.Inf(1)
	for _, i := range points {
		if t := m.Truth[i]; t < best { // false if t is NaN
			best = t
		}
	}
	return best
}

type tunedResult struct {
	point       int
	reported    float64
	claims      bool
	evaluations int
	samples     int
	tried       float64 // true time of the best config tried
	seconds     float64
	noisy       bool
	steps       []step
	challenges  bool
	covers      bool // the interval contains the true gain
}

func (s Study) tune(ctx context.Context, m *Model, seed uint64, incumbent int) (tunedResult, error) {
	strategy, err := search.ParseStrategy(s.Strategy)
	if err != nil {
		return tunedResult{}, err
	}
	required := m.Required
	if incumbent < 0 {
		incumbent = m.Incumbent
	} else {
		required = append(required[:len(required):len(required)], incumbent)
	}
	machine := m.Machine(seed)
	aa, err := s.Protocol.MeasureAA(ctx, machine, m.Default, s.Time/5)
	if err != nil {
		return tunedResult{}, err
	}
	h := search.NewState(m.Space, machine, search.Budget{Evaluations: s.evaluations(m), Time: s.Time}, m.Default, required,
		rand.New(rand.NewPCG(seed, 0x68756e74)))
	h.Band, h.AARounds = s.Protocol.Band, aa.Rounds
	if err := strategy(ctx, h); err != nil {
		return tunedResult{}, err
	}
	protocol := s.Protocol.After(aa)
	finals, err := h.Finals(ctx, protocol, record.StageFinals)
	if err != nil {
		return tunedResult{}, err
	}
	end, err := h.Conclude(ctx, finals, search.DecisionRules{
		Preference: search.Preference{Default: m.Default, Incumbent: incumbent, Neighbour: m.Neighbour, Cost: func(i int) ep.Cost { return m.Costs[i] }},
		Protocol:   protocol, AA: aa, HostBound: func(float64) string { return m.HostBound },
	})
	if err != nil {
		return tunedResult{}, err
	}
	if err := s.overSessions(ctx, h, machine, &end); err != nil {
		return tunedResult{}, err
	}
	d := end.Decision
	out := tunedResult{point: end.Winner.Point, reported: end.Winner.Median, claims: d.Verdict == record.Faster,
		evaluations: h.Tried(), samples: h.Samples(), tried: m.bestOf(h.Measured()), seconds: machine.Spent().Seconds(), steps: machine.best, noisy: d.Cause == record.Noisy}
	if challenger, ok := m.Space.Index(d.Challenger); ok && challenger != m.Default {
		gain := m.Truth[m.Default] / m.Truth[challenger]
		out.challenges, out.covers = true, d.ChallengerGain.Low <= gain && gain <= d.ChallengerGain.High
	}
	return out, nil
}

func (s Study) overSessions(ctx context.Context, h *search.State, machine *Machine, end *search.Conclusion) error {
	challenger, _ := h.Space.Index(end.Decision.Challenger)
	if s.Sessions == 0 || challenger == h.Default {
		return nil
	}
	live := []int{h.Default, search.Twin, challenger}
	neighbours := end.Others
	if len(neighbours) > 0 {
		live, neighbours = append(live, neighbours[0]), neighbours[1:]
	}
	var all [][]search.Finalist
	for range s.Sessions {
		machine.Reopen()
		finals, err := h.MeasureFresh(ctx, record.StageSession, live, neighbours, s.Protocol.ConfirmRounds)
		if err != nil {
			return err
		}
		all = append(all, finals)
	}
	end.Decision, end.Winner = end.DecideOverSessions(h.Space, end.Decision, search.MergeSessions(all), s.Sessions)
	return nil
}
