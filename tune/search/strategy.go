// Package search finds the fastest config of a space by measuring few of its
// points. It measures nothing itself: an Evaluator does, which may be a
// machine, a recorded run or a synthetic landscape.
//
// A Space holds the legal configs of one search. A Strategy decides which of
// them to measure, and for how many rounds, through the State of the search.
// Every search begins with the same A/A test and ends with the same finals and
// the same confirmation, whatever the strategy: see Protocol and
// State.Conclude.
package search

import (
	"context"

	"github.com/epbench/epbench/tune/ep"
)

// Strategy decides what to measure next until the budget is spent or nothing
// is left to learn. It leaves what it found in the state.
type Strategy func(context.Context, *State) error

// namedStrategy is a strategy with the name that flags give it.
type namedStrategy struct {
	name string
	run  Strategy
}

func (n namedStrategy) String() string { return n.name }

// strategies are the known ones in the order help prints them. grid measures every
// point in as many rounds: for recordings of whole spaces. Gone are ils and coord, which
// stay inside the kernel they begin with, and a genetic search: on whole spaces bayes was
// ahead of each at every budget.
var strategies = []namedStrategy{{DefaultStrategy, auto}, {"bayes", bayes}, {"race", race}, {"grid", grid}}

// DefaultStrategy is what a sweep takes where nobody says.
const DefaultStrategy = "auto"

// StrategyNames lists the known strategies.
func StrategyNames() []string {
	var out []string
	for _, s := range strategies {
		out = append(out, s.name)
	}
	return out
}

// ParseStrategy finds a strategy by name.
func ParseStrategy(name string) (Strategy, error) {
	found, err := ep.Find("strategy", name, strategies, namedStrategy.String)
	return found.run, err
}

// ScreenRounds is how often strategies time a point at least: enough to rank
// neighbours. The finals do the rest.
const ScreenRounds = 3

// mostScreenRounds is how often they do on a noisy machine. On spaces of 2 H100, where calls of
// few tokens vary by 3 % from round to round, 50 configs lose 1.07 % with three rounds, 0.63 with up to
// eight and 0.50 with up to twelve, which take a third longer.
const mostScreenRounds = 12
