package search

import (
	"context"
	"math"
	"time"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// A Protocol says in how many rounds a search makes its three comparisons. In a round, every config under test runs once.
//
//   - The A/A test, before the search, measures the default config twice in each round. The difference between the two is
//     the A/A spread: it shows how much equal configs differ on this machine.
//   - The finals measure the best configs of the search (the finalists) in new rounds.
//   - The confirmation measures the winner of the finals and the default config in new rounds.
type Protocol struct {
	Band      float64 // times that differ by a smaller fraction count as equal; the A/A test ends when its spread is at most Band
	AARounds  int     // rounds of the A/A test before each look at the spread
	MaxAA     int     // largest number of rounds of the A/A test
	Finalists int     // largest number of finalists, without those that are in every search
	MinRounds int     // rounds of the finals before a finalist may be dropped
	MaxRounds int     // largest number of rounds of the finals

	ConfirmRounds int // least number of rounds of the confirmation; each further session, with memory laid out anew, has as many
}

// OnGPU returns the protocol of machines with GPUs.
func OnGPU() Protocol {
	return Protocol{Band: 0.01, AARounds: 20, MaxAA: 200, Finalists: 24, MinRounds: 10, MaxRounds: 50, ConfirmRounds: 25}
}

// OnHost returns the protocol of machines without GPUs. Its band is ten times wider, because on a shared CPU a minute of
// measurements cannot show a difference of 1 %.
func OnHost() Protocol {
	return Protocol{Band: 0.10, AARounds: 40, MaxAA: 400, Finalists: 8, MinRounds: 10, MaxRounds: 50, ConfirmRounds: 25}
}

// After returns the protocol for a search after its A/A test. If the test needed many rounds, the finals may have as many.
func (p Protocol) After(aa record.AA) Protocol {
	p.MaxRounds = max(p.MaxRounds, aa.Rounds)
	return p
}

// confirmRule returns the rule that ends the confirmation. It ends after ConfirmRounds if the result is clear by then, and
// otherwise after as many rounds as the A/A test needed.
func (p Protocol) confirmRule(aa record.AA) StopRule {
	return StopRule{MinRounds: p.ConfirmRounds, MaxRounds: max(p.ConfirmRounds, aa.Rounds), Band: record.Band{Policy: p.Band, AA: aa.Spread}.Width()}
}

// Twin is a point that stands for a second measurement of the default config in the same rounds.
const Twin = -1

// MeasureAA makes the A/A test. It measures the default config and its Twin, until the spread is inside the band or the
// rounds are used up. It also ends if it takes longer than limit; a limit of 0 means no limit. The first rounds do not
// count against the limit, because they include compilation and checks. If the default config fails, the error is
// ErrDefault.
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

// logs returns the logarithms of the times of one point.
func logs(samples []Sample, point int) []float64 {
	var out []float64
	for _, s := range samples {
		if s.Point == point {
			out = append(out, math.Log(s.Seconds))
		}
	}
	return out
}
