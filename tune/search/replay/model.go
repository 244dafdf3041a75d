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
	Incumbent int    // row of the table in use, -1 where there is none
	Neighbour int    // winner of a neighbouring search, -1 where there is none
	HostBound string // why launch parameters cannot matter, "" if they can
	Pace      record.Pace
	Truth     []float64 // [point] seconds; NaN fails
	Costs     []ep.Cost // [point]
	Noise     Noise
}

// Noise of a reading, multiplied to the truth.
type Noise struct {
	Sigma        float64   // of lognormal noise, when Residuals is nil
	Residuals    []float64 // logarithms to draw from instead
	Drift        float64   // standard deviation of a wandering machine
	Memory       float64   // correlation of the drift from one sample to the next
	Common       float64   // standard deviation of what all samples of a round share
	CommonMemory float64   // correlation of that from one round to the next
	WarmUp       float64   // slowness at the start
	WarmFor      float64   // samples in which it decays by 1/e
	Spikes       float64   // share of samples that are SpikeBy slower
	SpikeBy      float64
}

// simulatedMachine is the Evaluator of a model.
type simulatedMachine struct {
	model  *Model
	rng    *rand.Rand
	drift  float64
	common float64 // of the present round
	taken  int
	round  int
	seen   map[int]bool
	spent  float64 // modelled seconds
}

// Machine starts a simulated machine; equal seeds behave alike.
func (m *Model) Machine(seed uint64) search.Evaluator {
	e := &simulatedMachine{model: m, rng: rand.New(rand.NewPCG(seed, 0x6d616368)), seen: map[int]bool{}}
	e.drift, e.common = m.Noise.Drift*e.rng.NormFloat64(), m.Noise.Common*e.rng.NormFloat64()
	return e
}

// Spent implements search.Evaluator: the cost of the samples at the recorded pace.
func (e *simulatedMachine) Spent() time.Duration {
	return time.Duration(e.spent * float64(time.Second))
}

func (e *simulatedMachine) Measure(ctx context.Context, _ record.Stage, live []int, rounds int) ([]search.Sample, error) {
	out := make([]search.Sample, 0, len(live)*rounds)
	for _, point := range live {
		if !e.seen[point] {
			e.seen[point] = true
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
				out = append(out, search.Sample{Point: live[k], Round: e.round, Seconds: t * e.factor()})
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

// factor is the noise of the next sample.
func (e *simulatedMachine) factor() float64 {
	n := &e.model.Noise
	e.drift = nextAutoregressive(e.rng, e.drift, n.Drift, n.Memory)
	x := n.Sigma * e.rng.NormFloat64()
	if n.Residuals != nil {
		x = n.Residuals[e.rng.IntN(len(n.Residuals))]
	}
	if e.rng.Float64() < n.Spikes {
		x += math.Log1p(n.SpikeBy)
	}
	if n.WarmFor > 0 {
		x += n.WarmUp * math.Exp(-float64(e.taken)/n.WarmFor)
	}
	e.taken++
	return math.Exp(x + e.drift + e.common)
}

// nextAutoregressive returns the value after x of a first-order autoregressive series with this
// standard deviation. memory is the correlation of neighbours.
func nextAutoregressive(rng *rand.Rand, x, deviation, memory float64) float64 {
	return memory*x + deviation*math.Sqrt(1-memory*memory)*rng.NormFloat64()
}
