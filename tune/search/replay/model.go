// Package replay runs searches without hardware, on synthetic times or on the trials of a recorded run.
package replay

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
)

// A Model is a space with the true time of every config, and the noise of its measurements.
type Model struct {
	Name      string
	Warning   string // doubtful values in the recording, or ""
	Space     *search.Space
	Default   int
	Required  []int
	Incumbent int    // point (index) of the config in the table in use, or -1
	Neighbour int    // point of another search's winner, or -1
	HostBound string // why the host limits all times, or ""
	Pace      record.Pace
	Prepare   []float64 // [point] seconds; nil means Pace.Config
	Truth     []float64 // [point] seconds; NaN for a config that fails
	Costs     []ep.Cost // [point]
	Noise     Noise
}

// Noise is the random factor between a true time and a reading. A deviation is a standard deviation of logarithms.
type Noise struct {
	Sigma     float64     // deviation of lognormal noise, if Residuals is nil
	Memory    float64     // correlation of a config's consecutive rounds
	Residuals []float64   // logarithms of recorded noise; may be nil
	Own       [][]float64 // [point] residuals in time order; may be nil

	Drift        float64 // deviation of the machine's drift
	DriftMemory  float64 // correlation of consecutive samples
	Common       float64 // deviation of the noise that all configs of a round share
	CommonMemory float64 // correlation of consecutive rounds
	Placement    float64 // deviation of a config's noise between sessions
	Mode         float64 // each config has a fast and a slow mode; relative slow-down of the slow one
	ModeStays    float64 // probability that a config's next sample has the same mode
	Tick         float64 // resolution of the clock in seconds; 0 for an exact clock

	WarmUp  float64 // relative slow-down of the first sample
	WarmFor float64 // samples until WarmUp falls to 1/e
	Spikes  float64 // share of samples that take 1 + SpikeBy times as long
	SpikeBy float64
}

// A Machine simulates the measurements of a model. It is a search.Evaluator.
type Machine struct {
	model  *Model
	rng    *rand.Rand
	drift  float64
	common float64
	taken  int
	round  int
	points map[int]*pointNoise
	spent  float64 // seconds
	best   []step  // one step for each new fastest config
}

type step struct{ spent, seconds float64 }

func (e *Machine) noteBest(point int) {
	t := e.model.time(point)
	if math.IsNaN(t) || len(e.best) > 0 && e.best[len(e.best)-1].seconds <= t {
		return
	}
	e.best = append(e.best, step{e.spent, t})
}

func (m *Model) prepareTime(point int) float64 {
	switch {
	case m.Prepare == nil:
		return m.Pace.Config
	case point == search.Twin:
		return 0
	}
	return m.Prepare[point]
}

type pointNoise struct {
	x       float64
	at      int
	slow    bool    // in the second mode
	placed  float64 // noise of this session
	session bool    // `placed` is valid
}

// Machine starts a simulated machine. Equal seeds give equal samples.
func (m *Model) Machine(seed uint64) *Machine {
	e := &Machine{model: m, rng: rand.New(rand.NewPCG(seed, 0x6d616368)), points: map[int]*pointNoise{}}
	e.drift, e.common = m.Noise.Drift*e.rng.NormFloat64(), m.Noise.Common*e.rng.NormFloat64()
	return e
}

// Reopen begins a session with new noise of each config.
func (e *Machine) Reopen() {
	clear(e.points)
}

// Spent implements search.Evaluator.
func (e *Machine) Spent() time.Duration { return time.Duration(e.spent * float64(time.Second)) }

// Measure implements search.Evaluator.
func (e *Machine) Measure(ctx context.Context, _ record.Stage, live []int, rounds int) ([]search.Sample, error) {
	out := make([]search.Sample, 0, len(live)*rounds)
	for _, point := range live {
		if e.points[point] == nil {
			e.points[point] = &pointNoise{x: e.model.Noise.Sigma * e.rng.NormFloat64(), at: -1, slow: e.rng.IntN(2) == 0}
			e.spent += e.model.prepareTime(point)
			e.noteBest(point)
		}
	}
	e.spent += float64(len(live)*rounds) * e.model.Pace.Sample
	for range rounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e.common = nextAutoregressive(e.rng, e.common, e.model.Noise.Common, e.model.Noise.CommonMemory)
		for _, k := range e.rng.Perm(len(live)) {
			if t := e.model.time(live[k]); !math.IsNaN(t) {
				out = append(out, search.Sample{Point: live[k], Round: e.round, Seconds: e.read(t * e.factor(live[k]))})
			}
		}
		e.round++
	}
	return out, nil
}

func (m *Model) time(point int) float64 {
	if point == search.Twin {
		point = m.Default
	}
	return m.Truth[point]
}

func (e *Machine) read(seconds float64) float64 {
	tick := e.model.Noise.Tick
	if tick == 0 {
		return seconds
	}
	return max(1, math.Round(seconds/tick+e.rng.Float64()-0.5)) * tick
}

func (e *Machine) factor(point int) float64 {
	n := &e.model.Noise
	e.drift = nextAutoregressive(e.rng, e.drift, n.Drift, n.DriftMemory)
	x := e.own(point)
	if e.rng.Float64() < n.Spikes {
		x += math.Log1p(n.SpikeBy)
	}
	if n.WarmFor > 0 {
		x += n.WarmUp * math.Exp(-float64(e.taken)/n.WarmFor)
	}
	e.taken++
	return math.Exp(x + e.drift + e.common)
}

func (e *Machine) own(point int) float64 {
	n, p := &e.model.Noise, e.points[point]
	x := p.residual(e.rng, n, e.model.own(point))
	if n.Mode > 0 {
		if e.rng.Float64() > n.ModeStays {
			p.slow = !p.slow
		}
		if p.slow {
			x += math.Log1p(n.Mode)
		}
	}
	if n.Placement > 0 && !p.session {
		p.placed, p.session = n.Placement*e.rng.NormFloat64(), true
	}
	return x + p.placed
}

func (m *Model) own(point int) []float64 {
	if point == search.Twin {
		point = m.Default
	}
	if point >= len(m.Noise.Own) {
		return nil
	}
	return m.Noise.Own[point]
}

const stretchMean = 8

// residual returns the next residual of a config. It draws stretches of consecutive residuals of the config, so that
// their correlation stays (stationary bootstrap, Politis and Romano 1994). A config without residuals gets one of
// n.Residuals, or else normal noise.
func (p *pointNoise) residual(rng *rand.Rand, n *Noise, own []float64) float64 {
	switch {
	case len(own) > 0:
		p.at++
		if p.at == 0 || p.at >= len(own) || rng.IntN(stretchMean) == 0 {
			p.at = rng.IntN(len(own))
		}
		return own[p.at]
	case n.Residuals != nil:
		return n.Residuals[rng.IntN(len(n.Residuals))]
	}
	p.x = nextAutoregressive(rng, p.x, n.Sigma, n.Memory)
	return p.x
}

// nextAutoregressive draws the value after x in a first-order autoregressive series.
func nextAutoregressive(rng *rand.Rand, x, deviation, memory float64) float64 {
	return memory*x + deviation*math.Sqrt(1-memory*memory)*rng.NormFloat64()
}
