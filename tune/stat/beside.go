package stat

import (
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// Beside sums up rounds with a matrix product. Each time is the slowest rank's time, as a median over rounds.
func Beside(t *ep.BesideRounds) record.Beside {
	of := func(rounds [][]float64) record.Interval { return MedianInterval(slowest(rounds)) }
	return record.Beside{
		Call: of(t.Call), CallIn: of(t.CallIn), Product: of(t.Alone()), ProductIn: of(t.ProductIn),
		Both: of(t.Both), Cost: of(t.Cost()), Done: Median(slowest(t.Done)), Amount: t.Amount,
		Slowdown: Slowdown(slowest(t.ProductIn), slowest(t.Alone())),
	}
}

// Slowdown returns the median over rounds of `with` / `alone`: times of a product with and without calls.
func Slowdown(with, alone []float64) record.Interval { return PairedRatio(Logs(with), Logs(alone)) }

// Saved returns the seconds that the config saves, or nil if the numbers of rounds differ.
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
