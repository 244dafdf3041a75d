package search

import (
	"context"
	"fmt"
	"strings"
)

// Strategy decides what to measure next until the budget is spent or nothing
// is left to learn. It leaves its findings in the hunt; every strategy is
// followed by the same confirmation on fresh samples.
type Strategy interface {
	Search(context.Context, *Hunt) error
}

// strategies are the known ones in the order help prints them.
var strategies = []struct {
	name string
	doc  string
	make func() Strategy
}{
	{"race", "everything 3 rounds, the best third 5 more, the best of these 10 more", func() Strategy { return race{} }},
	{"grid", "everything 10 rounds", func() Strategy { return grid{} }},
	{"random", "a random half of the budget twice as long", func() Strategy { return random{} }},
	{"ils", "iterated local search over single-parameter steps", func() Strategy { return ils{} }},
	{"ga", "genetic search: tournaments, uniform crossover, mutation", func() Strategy { return ga{} }},
	{"coord", "one parameter after another, around again until nothing improves", func() Strategy { return coord{} }},
}

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
	for _, s := range strategies {
		if s.name == name {
			return s.make(), nil
		}
	}
	return nil, fmt.Errorf("strategy: unknown %q, use one of %s", name, strings.Join(StrategyNames(), ", "))
}

// ScreenRounds is how often the local strategies time a point: enough to rank
// neighbours, confirmation does the rest.
const ScreenRounds = 3
