package replay

import (
	"math"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/stat"
)

const minConfigs = 8

// Starts says which configs a replay always measures. It selects them from the starts of the recorded search: the
// configs that this search always measured.
type Starts string

const (
	NoStarts   Starts = "none"       // only the default
	Named      Starts = "named"      // all starts except the incumbent (the config of the table in use)
	Incumbents Starts = "incumbents" // all starts, with the incumbent
)

// AllStarts lists the values of Starts.
func AllStarts() []Starts { return []Starts{Named, NoStarts, Incumbents} }

// FromRecordings makes a model of every search that measured enough configs.
func FromRecordings(all []*record.Recording, starts Starts) ([]*Model, error) {
	var out []*Model
	for _, r := range all {
		m, err := FromRecording(r, starts)
		if err != nil {
			return nil, err
		}
		if m != nil {
			out = append(out, m)
		}
	}
	return out, nil
}

// FromRecording makes a model of one search, or nil if it measured too few configs or its default failed.
func FromRecording(r *record.Recording, starts Starts) (*Model, error) {
	var configs []ep.Config
	for _, p := range r.Points {
		configs = append(configs, p.Config)
	}
	space, err := search.SpaceOf(configs)
	if err != nil || space.Len() < minConfigs {
		return nil, err
	}
	space.SetDesigns(r.Search.Designs)
	m := &Model{Name: r.Name(), Space: space, Default: -1, Incumbent: -1, Neighbour: -1, Pace: r.Search.Pace}
	if r.Search.Decision.Cause == record.HostBound {
		m.HostBound = r.Search.Decision.Reason
	}
	m.fit(r.Points)
	if m.Default < 0 || math.IsNaN(m.Truth[m.Default]) {
		return nil, nil
	}
	m.setStarts(r, starts)
	return m, nil
}

func (m *Model) setStarts(r *record.Recording, starts Starts) {
	if starts == NoStarts {
		return
	}
	for _, s := range r.Search.Starts {
		point, ok := m.Space.Index(s.Config)
		switch {
		case !ok || point == m.Default || s.From == record.FromIncumbent && starts != Incumbents:
			continue
		case s.From == record.FromIncumbent:
			m.Incumbent = point
		case s.From == record.FromSearch:
			m.Neighbour = point
		}
		m.Required = append(m.Required, point)
	}
}

func (m *Model) fit(points []record.Point) {
	var obs []stat.Obs
	rounds := map[int]int{}
	failed := make([]bool, m.Space.Len())
	m.Costs = make([]ep.Cost, m.Space.Len())
	for i := range points {
		p := &points[i]
		point, _ := m.Space.Index(p.Config)
		m.Costs[point] = p.Cost
		if p.Role == record.Default {
			m.Default = point
		}
		failed[point] = p.Status != ep.OK
		for _, stretch := range p.Rounds {
			round0, seconds := record.SecondsOf(stretch)
			for k, t := range seconds {
				if _, ok := rounds[round0+k]; !ok {
					rounds[round0+k] = len(rounds)
				}
				obs = append(obs, stat.Obs{Item: point, Round: rounds[round0+k], Log: math.Log(t)})
			}
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
	if len(obs) > 0 {
		m.Noise = noiseOf(obs, item, round)
	}
}

const fewestOwn = 6

// noiseOf computes the noise of samples from the results of stat.Polish, `item` and `round`.
func noiseOf(obs []stat.Obs, item, round []float64) Noise {
	n := Noise{Own: make([][]float64, len(item))}
	for _, o := range obs {
		x := o.Log - item[o.Item] - round[o.Round]
		n.Residuals, n.Own[o.Item] = append(n.Residuals, x), append(n.Own[o.Item], x)
	}
	for i, own := range n.Own {
		if len(own) < fewestOwn {
			n.Own[i] = nil
			continue
		}
		for k := range own { // the fit took one degree of freedom
			own[k] *= math.Sqrt(float64(len(own)) / float64(len(own)-1))
		}
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
		n.Common, n.CommonMemory = math.Sqrt(own/float64(len(round))), min(max(lagged/own, 0), 0.999)
	}
	return n
}
