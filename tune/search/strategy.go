// Package search finds the fastest config for a problem, and measures as few configs as possible. A config is a kernel
// with a value for each of its launch parameters.
//
// A [Space] holds the configs that a search may measure; each of them is called a point. An [Evaluator] measures points
// in rounds: in each round, every chosen point runs once. A [Strategy] decides which points are measured next, and in how
// many rounds. It works on a [State], which holds the times so far and the budget.
//
// Every search begins with the A/A test, which measures the default config twice in each round. The result shows how much
// equal configs differ. When the strategy has ended, [State.Conclude] measures the best points again and decides which
// config wins. See [Protocol].
package search

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// A Strategy calls methods of the state to measure points. It returns when the budget is spent, or when it does not
// expect a faster config.
type Strategy func(context.Context, *State) error

type namedStrategy struct {
	name string
	run  Strategy
}

func (n namedStrategy) String() string { return n.name }

// strategies lists the strategies in the order in which the help text shows them. Local search, coordinate descent and a
// genetic search are not in the list: on recorded spaces they found slower configs than bayes.
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

// priorsPrefix is the first part of a strategy's name such as bayes:roughness=0.3:strength=0. This name means the
// strategy bayes with these values in the prior of its Gaussian process.
const priorsPrefix = "bayes:"

// ParseStrategy returns the strategy with this name. The name exec:COMMAND means that another program chooses the points.
// The name bayes:PRIORS means bayes with other priors.
// The name grid:ROUNDS means grid with up to ROUNDS rounds for the fastest points.
func ParseStrategy(name string) (Strategy, error) {
	if text, ok := strings.CutPrefix(name, priorsPrefix); ok {
		p, err := parsePriors(text)
		return func(ctx context.Context, s *State) error {
			s.priors = p
			return bayes(ctx, s)
		}, err
	}
	if rounds, ok := strings.CutPrefix(name, gridPrefix); ok {
		n, err := strconv.Atoi(rounds)
		if err != nil || n < gridRounds || n > mostGridRounds {
			return nil, fmt.Errorf("strategy %s: %s is no number of rounds from %d to %d", name, rounds, gridRounds, mostGridRounds)
		}
		return gridTo(n), nil
	}
	if command, ok := strings.CutPrefix(name, externalPrefix); ok {
		return external(command)
	}
	found, err := ep.Find("strategy", name, strategies, namedStrategy.String)
	return found.run, err
}

// ScreenRounds is the number of rounds in which a search measures a new point, if the machine is not noisy.
const ScreenRounds = 3

// mostScreenRounds is the number of rounds in which a search measures a new point on a very noisy machine. On noisy
// recorded spaces, the winner of a search with 12 rounds lost half as much against the best config as with 3 rounds.
const mostScreenRounds = 12
