package search

import (
	"context"
	"math"
	"time"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// A Protocol says how many rounds the parts of a search take. In a round, every config under test runs once.
//
//   - The A/A test measures the default config twice in each round. The A/A spread shows how much these equal configs
//     differ.
//   - The finals measure the best configs, the finalists, in new rounds.
//   - The confirmation measures the winner of the finals and the default config in new rounds.
type Protocol struct {
	Band      float64 // smaller relative differences count as equal
	AARounds  int     // rounds after which the A/A test computes the spread again
	MaxAA     int     // largest number of rounds of the A/A test
	Finalists int     // largest number of finalists in the quota, and largest number of others, see finalPoints
	MinRounds int     // rounds of the finals before points are dropped
	MaxRounds int     // largest number of rounds of the finals, without those of furtherFinals

	ConfirmRounds int // rounds of the confirmation, and of each further session
}

// OnGPU returns the protocol of machines with GPUs.
func OnGPU() Protocol {
	return Protocol{Band: 0.01, AARounds: 20, MaxAA: 200, Finalists: 24, MinRounds: 10, MaxRounds: 50, ConfirmRounds: 25}
}

// OnHost returns the protocol of machines without GPUs. Its band is wider, because times on a shared CPU vary more.
func OnHost() Protocol {
	return Protocol{Band: 0.10, AARounds: 40, MaxAA: 400, Finalists: 8, MinRounds: 10, MaxRounds: 50, ConfirmRounds: 25}
}

// After returns the protocol for a search after its A/A test. The finals may take as many rounds as the test, and
// furtherFinals more.
func (p Protocol) After(aa record.AA) Protocol {
	p.MaxRounds = max(p.MaxRounds, aa.Rounds)
	return p
}

func (p Protocol) confirmRule(aa record.AA) StopRule {
	return StopRule{MinRounds: p.ConfirmRounds, MaxRounds: max(p.ConfirmRounds, aa.Rounds), Band: record.Band{Policy: p.Band, AA: aa.Spread}.Width()}
}

// Twin stands for a second measurement of the default config in the same rounds.
const Twin = -1

// MeasureAA makes the A/A test. It ends when the spread is inside the band, after MaxAA rounds, or after the time
// `limit` (0 for no limit). The limit does not count the first AARounds rounds. If the default config fails, the error
// is ErrDefault.
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
