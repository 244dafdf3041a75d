package replay

import (
	"fmt"
	"math"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
)

// fewest configs make a search worth replaying.
const fewest = 8

// FromTrials makes a model of every search in a log that measured enough
// configs. Their true times are fitted to all rounds together; the noise is what
// the fit leaves. A config that failed fails again.
func FromTrials(results []record.Result) ([]*Model, error) {
	type id struct {
		problem ep.Problem
		routing string
	}
	logs := map[id][]*record.Result{}
	var order []id
	for i := range results {
		r := &results[i]
		if r.Role == record.Peer {
			continue
		}
		k := id{r.Problem, r.Routing}
		if logs[k] == nil {
			order = append(order, k)
		}
		logs[k] = append(logs[k], r)
	}
	var out []*Model
	for _, k := range order {
		m, err := fromLog(logs[k])
		if err != nil {
			return nil, fmt.Errorf("%s under %s: %w", k.problem.Key(), k.routing, err)
		}
		if m != nil {
			out = append(out, m)
		}
	}
	return out, nil
}

// fromLog makes the model of one search, nil when it measured too little.
func fromLog(log []*record.Result) (*Model, error) {
	var configs []ep.Config
	for _, r := range log {
		configs = append(configs, r.Config)
	}
	space, err := search.SpaceOf(configs)
	if err != nil || space.Len() < fewest {
		return nil, err
	}
	m := &Model{Space: space, Default: -1}
	m.fit(log)
	if m.Default < 0 || math.IsNaN(m.Truth[m.Default]) {
		return nil, nil
	}
	return m, nil
}

// fit estimates truth and noise.
func (m *Model) fit(log []*record.Result) {
	var obs []stat.Obs
	rounds := map[int]int{}
	failed := make([]bool, m.Space.Len())
	m.Costs = make([]ep.Cost, m.Space.Len())
	raw := 0.0
	for _, r := range log {
		point, _ := m.Space.Index(r.Config)
		m.Costs[point] = r.Cost
		if r.Role == record.Default {
			m.Default = point
		}
		if r.Role == record.Incumbent || r.Role == record.Analytic {
			m.Required = append(m.Required, point)
		}
		failed[point] = failed[point] || r.Status != ep.OK
		for k, t := range r.Rounds() {
			if _, ok := rounds[r.Round0+k]; !ok {
				rounds[r.Round0+k] = len(rounds)
			}
			obs = append(obs, stat.Obs{Item: point, Round: rounds[r.Round0+k], Log: math.Log(t)})
			raw = t
		}
	}
	item, round := stat.Polish(obs, m.Default)
	level := stat.Median(round)
	m.Truth = make([]float64, m.Space.Len())
	for i := range m.Truth {
		m.Truth[i] = math.NaN()
		if i < len(item) && !failed[i] {
			m.Truth[i] = math.Exp(item[i] + level)
		}
	}
	if raw > 0 {
		m.Noise = noiseOf(obs, item, round)
	}
}

// noiseOf keeps the residuals to draw from; the rounds' common part becomes a
// drift of the same size and memory.
func noiseOf(obs []stat.Obs, item, round []float64) Noise {
	var n Noise
	for _, o := range obs {
		n.Residuals = append(n.Residuals, o.Log-item[o.Item]-round[o.Round])
	}
	mean := 0.0
	for _, b := range round {
		mean += b / float64(len(round))
	}
	var own, lagged float64
	for i, b := range round {
		own += (b - mean) * (b - mean)
		if i > 0 {
			lagged += (b - mean) * (round[i-1] - mean)
		}
	}
	if own > 0 && len(round) > 1 {
		n.Drift = math.Sqrt(own / float64(len(round)))
		perRound := float64(len(obs)) / float64(len(round))
		n.Memory = math.Pow(min(max(lagged/own, 0), 0.999), 1/perRound)
	}
	return n
}
