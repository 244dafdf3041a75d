// Package search finds the fastest config of a space by measuring few of its points. An Evaluator takes the
// measurements.
//
// A Space holds the legal configs of one search. A Strategy decides which of them to measure, and for how many rounds.
// Every search begins with the same A/A test and ends with the same finals and confirmation: see Protocol and
// State.Conclude.
package search

import (
	"context"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// A Strategy measures points through the state until the budget is spent or nothing
// is left to learn.
type Strategy func(context.Context, *State) error

type namedStrategy struct {
	name string
	run  Strategy
}

func (n namedStrategy) String() string { return n.name }

// strategies lists the strategies in the order of the help. Local search, coordinate descent and a genetic search are
// left out, because on recorded spaces they found slower configs than bayes.
var strategies = []namedStrategy{{DefaultStrategy, auto}, {"bayes", bayes}, {"race", race}, {"grid", grid}}

// DefaultStrategy is the strategy of a sweep without --strategy.
const DefaultStrategy = "auto"

// StrategyNames lists the known strategies.
func StrategyNames() []string {
	var out []string
	for _, s := range strategies {
		out = append(out, s.name)
	}
	return out
}

// priorsPrefix begins the name of a bayes strategy with other priors, such as bayes:roughness=0.3:strength=0.
const priorsPrefix = "bayes:"

// ParseStrategy finds a strategy by name. exec:COMMAND is the strategy of another program, and bayes:PRIORS is bayes
// with other priors.
func ParseStrategy(name string) (Strategy, error) {
	if text, ok := strings.CutPrefix(name, priorsPrefix); ok {
		p, err := parsePriors(text)
		return func(ctx context.Context, s *State) error {
			s.priors = p
			return bayes(ctx, s)
		}, err
	}
	if command, ok := strings.CutPrefix(name, externalPrefix); ok {
		return external(command)
	}
	found, err := ep.Find("strategy", name, strategies, namedStrategy.String)
	return found.run, err
}

// ScreenRounds is the least number of rounds in which a search measures a new point.
const ScreenRounds = 3

// mostScreenRounds is the largest number of rounds in which a search screens a new point. On noisy spaces a search
// loses half as much to the best config with 12 rounds as with 3.
const mostScreenRounds = 12
