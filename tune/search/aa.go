package search

import (
	"context"
	"math"
	"time"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// Twin is the point that stands for the default under a second label.
// Evaluators measure the default for it.
const Twin = -1

// AA says how the default is measured against itself.
type AA struct {
	Band      float64 // of the policy
	Rounds    int     // before each look at the spread
	MaxRounds int     // after which the machine is as noisy as it looks
	// Limit is the time that the test may take, 0 for no limit. The first
	// rounds are not counted: they pay for memory, compilation and the check
	// against the oracle, and more rounds are cheap after that.
	Limit time.Duration
}

// AAResult is the default against itself.
type AAResult struct {
	Ratio   float64 // median of twin over default
	Spread  float64 // what the default differs from itself by: half the interval's width, or the ratio's distance from 1
	Rounds  int
	Default float64 // the default's median, seconds
}

// quiet is the share of the band that ends the rounds early.
const quiet = 0.7

// Measure runs the test until the spread is well inside the band or the rounds
// or the time allowed are used up. Confirmations take no fewer rounds than it
// needed. It returns ErrDefault when the default fails.
func (a AA) Measure(ctx context.Context, e Evaluator, dflt int, seed uint64) (AAResult, error) {
	var out AAResult
	var base, twin []float64
	var first time.Duration
	spent := func() time.Duration { return 0 }
	if s, ok := e.(Spender); ok {
		spent = s.Spent
	}
	for out.Rounds < a.MaxRounds {
		samples, err := e.Measure(ctx, record.StageAA, []int{dflt, Twin}, a.Rounds)
		if err != nil {
			return out, err
		}
		if len(samples) < 2*a.Rounds {
			return out, ErrDefault
		}
		base, twin = append(base, logs(samples, dflt)...), append(twin, logs(samples, Twin)...)
		ratio := stat.MedianRatio(twin, base, seed)
		out = AAResult{Ratio: ratio.Mid, Spread: max(ratio.Half(), math.Abs(ratio.Mid-1)), Rounds: len(base), Default: math.Exp(stat.Median(base))}
		if first == 0 {
			first = spent()
		}
		if out.Spread <= quiet*a.Band || a.Limit > 0 && spent()-first > a.Limit {
			break
		}
	}
	return out, nil
}

func logs(samples []Sample, point int) []float64 {
	var out []float64
	for _, s := range samples {
		if s.Point == point {
			out = append(out, math.Log(s.Seconds))
		}
	}
	return out
}
