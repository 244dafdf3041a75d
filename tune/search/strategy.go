// Package search finds the fastest config for a problem, and measures as few configs as possible. A config is a kernel
// with a value for each of its launch parameters.
//
// A [Space] holds the configs that a search may measure. They are called points. An [Evaluator] measures points in
// rounds: in each round, every chosen point runs once. A [Strategy] decides which points are measured next. A [State]
// holds the times so far and the budget. At the end, [State.Conclude] measures the best points again and decides which
// config wins.
package search

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// A Strategy measures points until the budget is spent, or until it does not expect a faster config.
type Strategy func(context.Context, *State) error

type namedStrategy struct {
	name string
	run  Strategy
}

func (n namedStrategy) String() string { return n.name }

// These strategies are in the order of the help text. Local search, coordinate descent and a genetic search were worse
// than bayes.
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

const priorsPrefix = "bayes:"

// ParseStrategy returns the strategy with this name. exec:COMMAND runs a program that chooses the points. bayes:PRIORS
// runs bayes with these priors. grid:ROUNDS runs grid with up to ROUNDS rounds for the fastest points.
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

// ScreenRounds is the number of rounds of a new point, if the machine is not noisy.
const ScreenRounds = 3

// mostScreenRounds and mostTimedRounds limit the rounds of a new point on a noisy machine. The limit is lower under a
// time limit, because each further round leaves time for fewer points.
const (
	mostScreenRounds = 24
	mostTimedRounds  = 12
)
