package search

import (
	"context"
	"math"
	"time"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// Protocol is how every search compares: the A/A test at its beginning, the
// finals and the confirmation at its end.
type Protocol struct {
	Band      float64 // least relative difference in time that counts; what the A/A spread may reach
	AARounds  int     // of the default against itself, before each look at the spread
	MaxAA     int     // rounds after which a machine counts as noisy as it looks
	Finalists int     // at most, required candidates aside
	MinRounds int     // of the finals, before anything is decided
	MaxRounds int     // of the finals, after which what is open stays open

	ConfirmRounds int // of the confirmation, at least
}

// OnGPU is the protocol of machines with GPUs.
func OnGPU() Protocol {
	return Protocol{Band: 0.01, AARounds: 20, MaxAA: 200, Finalists: 24, MinRounds: 10, MaxRounds: 50, ConfirmRounds: 25}
}

// OnHost is the protocol of machines without GPUs, external workers included.
// A CPU that others use too cannot tell 1 % apart in a minute, and should not
// pretend to: its band is ten times as wide, and its tables say so.
func OnHost() Protocol {
	return Protocol{Band: 0.10, AARounds: 40, MaxAA: 400, Finalists: 8, MinRounds: 10, MaxRounds: 50, ConfirmRounds: 25}
}

// After is the protocol of what follows an A/A test: no comparison takes fewer
// rounds than the default needed to agree with itself.
func (p Protocol) After(aa record.AA) Protocol {
	p.MaxRounds = max(p.MaxRounds, aa.Rounds)
	return p
}

// confirmRule is how many rounds the confirmation takes: half of what finals may, where
// the gain is clear by then, else at least as many as the default needed to agree with
// itself. Most winners take a fraction of the default's time, and are clear.
func (p Protocol) confirmRule(aa record.AA) StopRule {
	return StopRule{MinRounds: p.ConfirmRounds, MaxRounds: max(p.ConfirmRounds, aa.Rounds), Band: record.Band{Policy: p.Band, AA: aa.Spread}.Width()}
}

// Twin is the point that stands for the default under a second label.
// Evaluators measure the default for it.
const Twin = -1

// AA measures the default against itself until the spread is inside the band, or the
// rounds or the time allowed are used up. A limit of 0 is none.
// The first rounds do not count against it: they pay for memory, compilation
// and the check against the oracle, and more rounds are cheap after that. AA
// returns ErrDefault when the default fails.
func (p Protocol) AA(ctx context.Context, e Evaluator, dflt int, limit time.Duration) (record.AA, error) {
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
		ratio := stat.MedianRatio(twin, base)
		out = record.AA{Ratio: ratio.Mid, Spread: max(ratio.Half(), math.Abs(ratio.Mid-1)), Rounds: len(base), Default: math.Exp(stat.Median(base))}
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
