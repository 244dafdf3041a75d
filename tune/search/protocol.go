package search

import (
	"context"
	"math"
	"time"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// A Protocol holds the rounds and bounds of the comparisons that every search makes: A/A test, finals, confirmation.
type Protocol struct {
	Band      float64 // smaller relative differences count as equal; the A/A test ends when its spread is at most Band
	AARounds  int     // rounds before each check of the spread
	MaxAA     int     // most rounds of the A/A test
	Finalists int     // most finalists, without required candidates
	MinRounds int     // rounds of the finals before a finalist may be dropped
	MaxRounds int     // most rounds of the finals

	ConfirmRounds int // least rounds of the confirmation; also the rounds of each further session
}

// OnGPU returns the protocol of machines with GPUs.
func OnGPU() Protocol {
	return Protocol{Band: 0.01, AARounds: 20, MaxAA: 200, Finalists: 24, MinRounds: 10, MaxRounds: 50, ConfirmRounds: 25}
}

// OnHost returns the protocol of machines without GPUs. Its band is ten times wider, because a shared CPU cannot
// resolve 1 % in a minute.
func OnHost() Protocol {
	return Protocol{Band: 0.10, AARounds: 40, MaxAA: 400, Finalists: 8, MinRounds: 10, MaxRounds: 50, ConfirmRounds: 25}
}

// After returns the protocol after an A/A test: its MaxRounds is at least the test's rounds.
func (p Protocol) After(aa record.AA) Protocol {
	p.MaxRounds = max(p.MaxRounds, aa.Rounds)
	return p
}

// confirmRule ends the confirmation after ConfirmRounds if the gain is clear, else after as many rounds as the A/A test
// took.
func (p Protocol) confirmRule(aa record.AA) StopRule {
	return StopRule{MinRounds: p.ConfirmRounds, MaxRounds: max(p.ConfirmRounds, aa.Rounds), Band: record.Band{Policy: p.Band, AA: aa.Spread}.Width()}
}

// Twin asks an Evaluator for the default under a second label.
const Twin = -1

// MeasureAA measures the default against itself until the spread is inside the band, or the rounds or the time are used
// up. A limit of 0 means no limit. The first rounds include compilation and checks, and do not count against the limit.
// If the default fails, the error is ErrDefault.
func (p Protocol) MeasureAA(ctx context.Context, e Evaluator, dflt int, limit time.Duration) (record.AA, error) {
	var out record.AA
	var base, twin []float64
	var first time.Duration
	for out.Rounds < p.MaxAA {
		samples, err := e.Measure(ctx, record.StageAA, []int{dflt, Twin}, p.AARounds)
		if err != nil {
			return out, err
		}
		if len(samples) < 2*p.AARounds {
			return out, ErrDefault
		}
		base, twin = append(base, logs(samples, dflt)...), append(twin, logs(samples, Twin)...)
		ratio := stat.PairedRatio(twin, base)
		out = record.AA{Ratio: ratio.Mid, Spread: stat.AASpread(ratio), Rounds: len(base), Default: math.Exp(stat.Median(base))}
		if first == 0 {
			first = e.Spent()
		}
		if out.Spread <= p.Band || limit > 0 && e.Spent()-first > limit {
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
