package live

import (
	"math"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// A Search is the state of one search in the log.
type Search struct {
	Problem ep.Problem
	Routing string
	Stage   record.Stage // of the last block
	Default ep.Config
	Failed  []Failure // first failure of each config
	Decided *record.Search

	failed  map[string]bool // by config key
	ended   time.Time
	tried   map[string]bool // by config key
	kernels map[string]bool
	alive   map[string]bool // kernels of the last stage
	rank    int             // rankOf(stage from which gains come)
	gains   map[string]*gain
}

// A Failure is a config that failed.
type Failure struct {
	Config ep.Config
	Status ep.Status
	Reason string
}

// gain holds log(default's time / config's time) by round.
type gain struct {
	config ep.Config
	logs   []float64
}

func newSearch(p ep.Problem, routing string) *Search {
	return &Search{Problem: p, Routing: routing, failed: map[string]bool{}, tried: map[string]bool{}, kernels: map[string]bool{}, alive: map[string]bool{}, gains: map[string]*gain{}}
}

// rankOf ranks stages. A Search keeps only the gains from its stage of highest rank. A stage that chooses the fastest
// config has a low rank: the config was partly lucky there, so its gain is too high.
func rankOf(s record.Stage) int {
	switch s {
	case record.StageFinals, record.StageRetry:
		return 1
	case record.StageConfirm:
		return 2
	case record.StageSession:
		return 3
	}
	return 0
}

// add adds a block, whose configs ran in the same rounds.
func (s *Search) add(block []record.Result) {
	stage := block[0].Stage
	if s.ended = block[0].Time; stage == record.StageRecheck || stage == record.StageCross {
		s.addFailures(block)
		return
	}
	if stage != s.Stage {
		s.Stage, s.alive = stage, map[string]bool{}
	}
	if rank := rankOf(stage); rank > s.rank {
		s.rank, s.gains = rank, map[string]*gain{}
	}
	s.addFailures(block)
	dflt := slices.IndexFunc(block, func(r record.Result) bool { return r.Role == record.Default })
	for i := range block {
		r := &block[i]
		if r.Role == record.Twin {
			continue
		}
		s.tried[r.Config.Key()], s.kernels[r.Config.Kernel] = true, true
		if r.Status == ep.OK {
			s.alive[r.Config.Kernel] = true
		}
		if dflt >= 0 && i != dflt && rankOf(stage) == s.rank {
			s.addGain(r, &block[dflt])
		}
	}
	if dflt >= 0 {
		s.Default = block[dflt].Config
	}
}

func (s *Search) addFailures(block []record.Result) {
	for i := range block {
		r := &block[i]
		if key := r.Config.Key(); r.Status != ep.OK && !s.failed[key] {
			s.failed[key] = true
			s.Failed = append(s.Failed, Failure{r.Config, r.Status, r.Reason})
		}
	}
}

func (s *Search) addGain(r, dflt *record.Result) {
	times, base := r.Rounds(), dflt.Rounds()
	g := s.gains[r.Config.Key()]
	if g == nil {
		g = &gain{config: r.Config}
		s.gains[r.Config.Key()] = g
	}
	for k := range min(len(times), len(base)) {
		g.logs = append(g.logs, math.Log(base[k]/times[k]))
	}
}

// Tried returns the number of configs that were measured or failed.
func (s *Search) Tried() int { return len(s.tried) }

// Kernels returns the number of measured kernels, and the names of the kernels in the last stage.
func (s *Search) Kernels() (all int, alive []string) {
	for k := range s.alive {
		alive = append(alive, k)
	}
	slices.Sort(alive)
	return len(s.kernels), alive
}

// Best returns the config with the largest median gain. ok is false if no config has a gain.
func (s *Search) Best() (best ep.Config, ratio float64, ok bool) {
	top := math.Inf(-1)
	for _, g := range s.gains {
		if len(g.logs) == 0 {
			continue
		}
		if m := stat.Median(g.logs); m > top || m == top && g.config.Key() < best.Key() {
			best, top, ok = g.config, m, true
		}
	}
	return best, math.Exp(top), ok
}
