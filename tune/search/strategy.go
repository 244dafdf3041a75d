// Package search finds the fastest config of a space by measuring few of its
// points. An Evaluator measures: a machine, a recorded run or a synthetic landscape.
//
// A Space holds the legal configs of one search. A Strategy decides which of
// them to measure, and for how many rounds, through the State of the search.
// Every search begins with the same A/A test and ends with the same finals and
// the same confirmation, whatever the strategy: see Protocol and
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

// namedStrategy is a strategy and its name in flags.
type namedStrategy struct {
	name string
	run  Strategy
}

func (n namedStrategy) String() string { return n.name }

// strategies lists the strategies in the order in which help prints them. Iterated local search,
// coordinate descent and a genetic search were tried: on recorded whole spaces bayes lost less at
// every budget.
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

// priorsPrefix begins the name of bayes with other priors, such as bayes:roughness=0.3:strength=0.
const priorsPrefix = "bayes:"

// ParseStrategy finds a strategy by name. exec:COMMAND is the strategy of another program, and
// bayes:PRIORS is bayes with other priors, see parsePriors.
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

// ScreenRounds is the least number of rounds of a new point: enough to rank
// similar points. The finals rank the best points more exactly.
const ScreenRounds = 3

// mostScreenRounds bounds screenRounds. On noisy spaces of 2 H100, searches of 50 configs lose 1.07
// % with 3 rounds, and 0.50 % with up to 12 rounds. The latter take a third longer.
const mostScreenRounds = 12
