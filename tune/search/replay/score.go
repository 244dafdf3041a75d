package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/stat"
)

// A Baseline describes how fast random search finds fast configs. Source: Willemsen et al., "A Methodology for
// Comparing Auto-Tuning Optimization Algorithms", 2024, and its program autotuning_methodology 1.1.0
// (searchspace_statistics.py, baseline.py). Unlike that program, Baseline does not smooth the curve of random search.
type Baseline struct {
	slowest []float64 // seconds, slowest first
	Tries   int       // expected number of configs until Cutoff
	each    float64   // mean seconds to try a config
	Start   float64   // expected seconds until random search reaches leftMedian
	Cutoff  float64   // expected seconds until random search reaches closeToBest
}

// These constants are points on the way from the median time of all configs (0) to the best time (1).
const (
	leftMedian  = 0.01
	closeToBest = 0.95
)

// runsEach is the number of runs of each config, as in most files of the benchmark hub (see package exchange).
const runsEach = 32

// Baseline returns the baseline of a model.
func (m *Model) Baseline() Baseline {
	var b Baseline
	var costs []float64
	for i, t := range m.Truth {
		cost := m.prepareTime(i)
		if !math.IsNaN(t) {
			cost += runsEach * t
			b.slowest = append(b.slowest, t)
		}
		costs = append(costs, cost)
		b.each += cost / float64(len(m.Truth))
	}
	slices.SortFunc(b.slowest, func(x, y float64) int { return cmp.Compare(y, x) })
	usual := stat.Median(costs)
	start, end := b.tries(leftMedian), b.tries(closeToBest)
	if end-start < 2 {
		start, end = max(0, start-1), end+1
	}
	b.Start, b.Cutoff, b.Tries = float64(start)*usual, float64(end)*usual, end
	return b
}

func (b Baseline) tries(share float64) int {
	n := len(b.slowest)
	best, middle := b.slowest[n-1], stat.Median(b.slowest)
	target := best + (middle-best)*(1-share)
	i := slices.IndexFunc(b.slowest, func(t float64) bool { return t <= target })
	if b.slowest[i] == best && i > 0 {
		i--
	}
	return int(math.Ceil(float64(i) / float64(n+1-i)))
}

// at returns the expected time of the fastest config that random search has found after some seconds.
func (b Baseline) at(seconds float64) float64 {
	tried := math.Max(1, math.RoundToEven(seconds/b.each))
	n := len(b.slowest)
	i := int(math.RoundToEven(tried * float64(n+1) / (tried + 1)))
	return b.slowest[min(n-1, i)]
}

const moments = 1000

// Score returns the mean of (random - found) / (random - best) over moments from Start to Cutoff. `random` is the
// time of the fastest config that random search has found until a moment. `found` is the mean over `searches` of the
// fastest time that each of them has found until then. `best` is the time of the fastest config of the whole space.
// The score is 0 for random search, and 1 for searches that know the best config from Start on.
func (b Baseline) Score(searches [][]step) float64 {
	best, slowest, sum := b.slowest[len(b.slowest)-1], b.slowest[0], 0.0
	for k := 1; k <= moments; k++ {
		now := b.Start + (b.Cutoff-b.Start)*float64(k)/moments
		found := 0.0
		for _, s := range searches {
			found += foundAt(s, now, slowest) / float64(len(searches))
		}
		random := b.at(now)
		if random > best {
			sum += (random - found) / (random - best) / moments
		}
	}
	return sum
}

func foundAt(steps []step, now, none float64) float64 {
	for _, s := range slices.Backward(steps) {
		if s.spent <= now {
			return s.seconds
		}
	}
	return none
}

// ErrNoPace says that a model does not know how long it takes to try a config.
var ErrNoPace = errors.New("the recording does not say how long its configs took, so it cannot be scored: record it again")

// ValidShare returns the share of configs that do not fail.
func (m *Model) ValidShare() float64 {
	failed := 0
	for _, t := range m.Truth {
		if math.IsNaN(t) {
			failed++
		}
	}
	return 1 - float64(failed)/float64(len(m.Truth))
}

// ScoreOf runs a study on one model, and returns the study's score and report. Each search ends at the baseline's
// Cutoff.
func (s Study) ScoreOf(ctx context.Context, m *Model) (score float64, r Report, err error) {
	b := m.Baseline()
	if b.Cutoff <= b.Start {
		return 0, r, fmt.Errorf("%s: %w", m.Name, ErrNoPace)
	}
	s.Time, s.Once = time.Duration(b.Cutoff*float64(time.Second)), true
	r, err = s.Run(ctx, func(int) *Model { return m })
	return b.Score(r.steps), r, err
}
