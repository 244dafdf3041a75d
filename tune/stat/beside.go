package stat

import (
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// Beside sums up rounds beside a product. Each time is the slowest rank's of a round,
// then the median over rounds.
func Beside(t *ep.BesideRounds) record.Beside {
	of := func(rounds [][]float64) record.Interval { return MedianInterval(slowest(rounds)) }
	return record.Beside{
		Call: of(t.Call), CallIn: of(t.CallIn), Product: of(t.Alone()), ProductIn: of(t.ProductIn),
		Both: of(t.Both), Cost: of(t.Cost()), Done: Median(slowest(t.Done)), Amount: t.Amount,
		Slowdown: Slowdown(slowest(t.ProductIn), slowest(t.Alone())),
	}
}

// Slowdown is the median over rounds of with over alone, two times of the product from the
// same round, with its 95 % interval.
func Slowdown(with, alone []float64) record.Interval { return MedianRatio(logs(with), logs(alone)) }

// Saved is the median over rounds of the time of both with the default less that with the
// config, seconds, with its 95 % interval; nil where they have not as many rounds.
func Saved(config, dflt *ep.BesideRounds) *record.Interval {
	if len(config.Both) != len(dflt.Both) {
		return nil
	}
	diff := slowest(dflt.Both)
	for i, both := range slowest(config.Both) {
		diff[i] -= both
	}
	out := MedianInterval(diff)
	return &out
}

// slowest is the largest of the ranks' values, by round.
func slowest(rounds [][]float64) []float64 {
	out := make([]float64, len(rounds))
	for i, ranks := range rounds {
		out[i] = slices.Max(ranks)
	}
	return out
}
