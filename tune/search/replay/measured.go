package replay

import (
	"fmt"
	"math"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/search/exchange"
	"github.com/epbench/epbench/tune/stat"
)

// FromSpace makes a model of a space that another tuner measured. Its default is the first config that has a time.
func FromSpace(s *exchange.Space) (*Model, error) {
	configs := make([]ep.Config, len(s.Points))
	for i, p := range s.Points {
		configs[i] = p.Config
	}
	space, err := search.SpaceOf(configs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	n := space.Len()
	m := &Model{Name: s.Name, Space: space, Default: -1, Incumbent: -1, Neighbour: -1,
		Truth: make([]float64, n), Costs: make([]ep.Cost, n), Prepare: make([]float64, n), Noise: Noise{Own: make([][]float64, n)}}
	if s.Inconsistent > 0 {
		m.Warning = fmt.Sprintf("%s: the times of %d of %d configs differ from the mean of their runs by more than 1 %%; the replays use the times", s.Name, s.Inconsistent, len(s.Points))
	}
	timed, sum := 0, 0.0
	for _, p := range s.Points {
		at, _ := space.Index(p.Config)
		m.Truth[at], m.Prepare[at] = p.Time, p.Prepare
		if math.IsNaN(p.Time) {
			continue
		}
		if m.Default < 0 {
			m.Default = at
		}
		m.Noise.Own[at] = ownResiduals(p.Runs)
		timed, sum = timed+1, sum+p.Time
	}
	m.Pace.Sample = sum / float64(timed)
	return m, nil
}

func ownResiduals(runs []float64) []float64 {
	if len(runs) < fewestOwn {
		return nil
	}
	out := make([]float64, len(runs))
	for i, t := range runs {
		out[i] = math.Log(t)
	}
	middle := stat.Median(out)
	for i := range out {
		out[i] -= middle
	}
	return out
}
