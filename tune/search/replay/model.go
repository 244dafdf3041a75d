// Package replay runs searches without hardware, on a synthetic landscape or on
// the trials of a recorded run. A search follows the protocol of a
// sweep: A/A test, strategy, finals, confirmation. Answers are not checked: nothing computes any.
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
	Name      string // of the recording
	Space     *search.Space
	Default   int
	Required  []int
	Incumbent int    // row of the table in use, -1 if there is none
	Neighbour int    // winner of a neighbouring search, -1 if there is none
	HostBound string // why launch parameters cannot matter, "" if they can
	Pace      record.Pace
	Truth     []float64 // [point] seconds; NaN fails
	Costs     []ep.Cost // [point]
	Noise     Noise
}

// Noise is the noise of a reading, which multiplies the true time.
type Noise struct {
	Sigma     float64     // of lognormal noise, if Residuals is nil
	Memory    float64     // correlation of that from one round of a config to the next
	Residuals []float64   // logarithms to draw from instead
	Own       [][]float64 // [point] the config's own, in time order, to draw from instead of Residuals where it has some

	Drift        float64 // standard deviation of a wandering machine
	DriftMemory  float64 // correlation of the drift from one sample to the next
	Common       float64 // standard deviation of the noise that all samples of a round share
	CommonMemory float64 // correlation of that from one round to the next
	Placement    float64 // standard deviation of the noise of a config that is constant in a session
	Mode         float64 // slowness of a config in its second mode
	ModeStays    float64 // probability that a config keeps its mode in the next round
	Tick         float64 // of the clock, seconds; 0: none

	WarmUp  float64 // slowness at the start
	WarmFor float64 // samples in which it decays by 1/e
	Spikes  float64 // share of samples that are SpikeBy slower
	SpikeBy float64
}

// A Machine is the Evaluator of a model.
type Machine struct {
	model  *Model
	rng    *rand.Rand
	drift  float64
	common float64 // of the present round
	taken  int
	round  int
	points map[int]*pointNoise
	spent  float64 // modelled seconds
}

// pointNoise is the state of one config's noise.
type pointNoise struct {
	x       float64 // correlated noise
	at      int     // place in its own residuals
	slow    bool    // in its second mode
	placed  float64 // of this session
	session bool    // placed was drawn
}

// Machine starts a simulated machine; equal seeds behave alike.
func (m *Model) Machine(seed uint64) *Machine {
	e := &Machine{model: m, rng: rand.New(rand.NewPCG(seed, 0x6d616368)), points: map[int]*pointNoise{}}
	e.drift, e.common = m.Noise.Drift*e.rng.NormFloat64(), m.Noise.Common*e.rng.NormFloat64()
	return e
}

// Reopen begins another session. Memory lies elsewhere, and so much time has passed that nothing is
// left of the noise before.
func (e *Machine) Reopen() {
	clear(e.points)
}

// Spent implements search.Evaluator: the cost of the samples at the recorded pace.
func (e *Machine) Spent() time.Duration { return time.Duration(e.spent * float64(time.Second)) }

// Measure implements search.Evaluator.
func (e *Machine) Measure(ctx context.Context, _ record.Stage, live []int, rounds int) ([]search.Sample, error) {
	out := make([]search.Sample, 0, len(live)*rounds)
	for _, point := range live {
		if e.points[point] == nil {
			e.points[point] = &pointNoise{x: e.model.Noise.Sigma * e.rng.NormFloat64(), at: -1, slow: e.rng.IntN(2) == 0}
			e.spent += e.model.Pace.Config
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

// time returns the true time of a point. The twin has the default's.
func (m *Model) time(point int) float64 {
	if point == search.Twin {
		point = m.Default
	}
	return m.Truth[point]
}

// read returns what a clock with ticks shows.
func (e *Machine) read(seconds float64) float64 {
	tick := e.model.Noise.Tick
	if tick == 0 {
		return seconds
	}
	return max(1, math.Round(seconds/tick+e.rng.Float64()-0.5)) * tick
}

// factor returns the noise of the next sample of a point.
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

// own returns the part of the noise that belongs to a config.
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

// own returns the residuals of a point, nil if it has none. The twin has the default's.
func (m *Model) own(point int) []float64 {
	if point == search.Twin {
		point = m.Default
	}
	if point >= len(m.Noise.Own) {
		return nil
	}
	return m.Noise.Own[point]
}

// stretchMean is the mean number of rounds that are drawn in a row: as long as recorded noise is
// seen to be correlated.
const stretchMean = 8

// residual returns the next residual: of the config's own ones in stretches of consecutive rounds,
// which keep their correlation (the stationary bootstrap, Politis and Romano 1994), else of those
// of all configs, else a normal variable.
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

// nextAutoregressive returns the value after x of a first-order autoregressive series with this
// standard deviation. memory is the correlation of neighbours.
func nextAutoregressive(rng *rand.Rand, x, deviation, memory float64) float64 {
	return memory*x + deviation*math.Sqrt(1-memory*memory)*rng.NormFloat64()
}
