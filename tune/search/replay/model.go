// Package replay runs searches without hardware, on invented times (a synthetic landscape) or on
// the trials of a recorded run. A search follows the protocol of a sweep: A/A test, strategy,
// finals, confirmation.
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
	Name      string // name of the recording
	Warning   string // a sentence about doubtful values in the recording, or ""
	Space     *search.Space
	Default   int
	Required  []int
	Incumbent int    // point of the config in the table in use, -1 if there is none
	Neighbour int    // point that won a neighbouring search, -1 if there is none
	HostBound string // why launch parameters cannot matter, "" if they can matter
	Pace      record.Pace
	Prepare   []float64 // [point] seconds to prepare the config; if nil, every config takes Pace.Config
	Truth     []float64 // [point] true time in seconds; NaN for a config that fails
	Costs     []ep.Cost // [point]
	Noise     Noise
}

// Noise describes the random factor between a true time and a reading.
type Noise struct {
	Sigma     float64     // standard deviation of lognormal noise; used if Residuals is nil
	Memory    float64     // correlation of the lognormal noise from one round of a config to the next
	Residuals []float64   // logarithms of recorded noise; if set, the noise is drawn from them
	Own       [][]float64 // [point] residuals of the config in time order, used instead of Residuals; nil if the config has none

	Drift        float64 // standard deviation of the drift of the machine
	DriftMemory  float64 // correlation of the drift from one sample to the next
	Common       float64 // standard deviation of the noise that all samples of a round share
	CommonMemory float64 // correlation of the common noise from one round to the next
	Placement    float64 // standard deviation of a config's noise that stays constant in a session
	Mode         float64 // relative slow-down of a config in its second mode
	ModeStays    float64 // probability that a config keeps its mode in the next round
	Tick         float64 // seconds between two ticks of the clock; 0 for an exact clock

	WarmUp  float64 // relative slow-down of the first sample
	WarmFor float64 // number of samples after which WarmUp has fallen to 1/e
	Spikes  float64 // share of samples that take 1 + SpikeBy times as long
	SpikeBy float64
}

// A Machine is the Evaluator of a model.
type Machine struct {
	model  *Model
	rng    *rand.Rand
	drift  float64
	common float64 // common noise of the present round
	taken  int     // number of samples so far
	round  int
	points map[int]*pointNoise
	spent  float64 // modelled seconds
	best   []step  // one step for each config that was faster than all configs tried before it
}

// A step is an improvement during a search. After `spent` seconds the search tried a config that is faster
// than all configs before it. The true time of this config is `seconds`.
type step struct{ spent, seconds float64 }

// noteBest adds a step if a point, tried for the first time, is the fastest so far.
func (e *Machine) noteBest(point int) {
	t := e.model.time(point)
	if math.IsNaN(t) || len(e.best) > 0 && e.best[len(e.best)-1].seconds <= t {
		return
	}
	e.best = append(e.best, step{e.spent, t})
}

// prepareTime returns the modelled seconds that it takes to prepare a config for timing. If Prepare is set,
// it returns 0 for the twin, because the default is already prepared.
func (m *Model) prepareTime(point int) float64 {
	switch {
	case m.Prepare == nil:
		return m.Pace.Config
	case point == search.Twin:
		return 0
	}
	return m.Prepare[point]
}

// pointNoise is the state of one config's noise.
type pointNoise struct {
	x       float64 // correlated noise
	at      int     // index in the config's residuals
	slow    bool    // the config is in its second mode
	placed  float64 // noise of this session
	session bool    // placed was drawn
}

// Machine starts a simulated machine. Machines with the same seed give the same samples.
func (m *Model) Machine(seed uint64) *Machine {
	e := &Machine{model: m, rng: rand.New(rand.NewPCG(seed, 0x6d616368)), points: map[int]*pointNoise{}}
	e.drift, e.common = m.Noise.Drift*e.rng.NormFloat64(), m.Noise.Common*e.rng.NormFloat64()
	return e
}

// Reopen begins another session. Its noise does not depend on earlier noise.
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

// time returns the true time of a point. The twin has the default's time.
func (m *Model) time(point int) float64 {
	if point == search.Twin {
		point = m.Default
	}
	return m.Truth[point]
}

// read returns the reading of a clock that counts in ticks.
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

// own returns the residuals of a point, nil if the model has none for it. The twin has the default's
// residuals.
func (m *Model) own(point int) []float64 {
	if point == search.Twin {
		point = m.Default
	}
	if point >= len(m.Noise.Own) {
		return nil
	}
	return m.Noise.Own[point]
}

// stretchMean is the mean number of consecutive rounds that are drawn together. Recorded noise is
// correlated over about as many rounds.
const stretchMean = 8

// residual returns the next residual. If the config has its own residuals, it draws stretches of
// consecutive rounds from them, to keep their correlation (stationary bootstrap, Politis and Romano
// 1994). Otherwise it draws from the residuals of all configs. If there are none, it draws a normal
// variable.
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
// standard deviation. `memory` is the correlation of consecutive values.
func nextAutoregressive(rng *rand.Rand, x, deviation, memory float64) float64 {
	return memory*x + deviation*math.Sqrt(1-memory*memory)*rng.NormFloat64()
}
