package curate

import (
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// Rule decides at a token count that both tables were measured at, where their configs
// differ.
type Rule struct {
	// Band is the relative difference of times or gains that does not matter.
	Band float64
	// Measured is the time of a config in the newcomer's run, in seconds. Nil means
	// that only the newcomer's table is known.
	Measured func(k table.Key, tokens int, routing string, c ep.Config) (seconds float64, ok bool)
}

// prefers reports whether the newcomer's row takes the incumbent's place at a token
// count.
//
// A row for all routings never gives way to one that was measured under fewer of them:
// with fewer routings, the largest loss is smaller without the config being better.
// Where the newcomer's run timed both configs, side by side on one machine, its times
// decide: the incumbent stays only if they tie under every routing. Else the gains of
// the two runs are compared. That is weaker evidence, because each gain is the least
// one over a row's token counts and routings.
func (r Rule) prefers(newcomer, old *table.Row, tokens int) bool {
	if old.Key.Routing == ep.AllRoutings && !coversRoutings(newcomer, old) {
		return false
	}
	if tie, known := r.tie(newcomer, old, tokens); known {
		return !tie
	}
	n, o := newcomer.Evidence, old.Evidence
	return n.Gain > o.Gain*(1+r.Band) && n.GainLow > o.GainHigh
}

// coversRoutings reports whether a row was measured under all routings that another was.
func coversRoutings(r, other *table.Row) bool {
	return !slices.ContainsFunc(other.Evidence.Routings, func(spec string) bool {
		return !slices.Contains(r.Evidence.Routings, spec)
	})
}

// tie reports whether the incumbent's config is as fast as the newcomer's under every
// routing. known is false where the newcomer's run did not time both.
func (r Rule) tie(newcomer, old *table.Row, tokens int) (tie, known bool) {
	routings := newcomer.Evidence.Routings
	if r.Measured == nil || len(routings) == 0 {
		return false, false
	}
	tie = true
	for _, spec := range routings {
		was, ok := r.Measured(old.Key, tokens, spec, old.Config)
		is, both := r.Measured(old.Key, tokens, spec, newcomer.Config)
		if !ok || !both {
			return false, false
		}
		tie = tie && was <= is*(1+r.Band)
	}
	return tie, true
}
