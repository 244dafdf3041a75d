package stat

import (
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// Beside summarizes rounds in which a matrix product runs beside the calls. In each round it takes the value of the
// slowest rank. Each result is the median of the rounds.
func Beside(t *ep.BesideRounds) record.Beside {
	of := func(rounds [][]float64) record.Interval { return MedianInterval(slowest(rounds)) }
	return record.Beside{
		Call: of(t.Call), CallIn: of(t.CallIn), Product: of(t.Alone()), ProductIn: of(t.ProductIn),
		Both: of(t.Both), Cost: of(t.Cost()), Done: Median(slowest(t.Done)), Amount: t.Amount,
		Slowdown: Slowdown(slowest(t.ProductIn), slowest(t.Alone())),
	}
}

// Slowdown returns how much calls slow down a matrix product. `with` holds the product's time beside calls in each
// round, and `alone` holds its time without calls. Slowdown divides the two times of each round and returns the median.
func Slowdown(with, alone []float64) record.Interval { return PairedRatio(Logs(with), Logs(alone)) }

// Saved returns how many seconds a config saves against the default, or nil if their numbers of rounds differ.
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

func slowest(rounds [][]float64) []float64 {
	out := make([]float64, len(rounds))
	for i, ranks := range rounds {
		out[i] = slices.Max(ranks)
	}
	return out
}
