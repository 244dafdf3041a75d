package curate

import (
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// Rule decides at a token count that both tables were measured at, where they choose
// differently.
type Rule struct {
	// Band is the relative difference of times or gains that does not matter.
	Band float64
	// Measured is what a config took in the newcomer's run, in seconds. Nil: nothing is
	// known of that run but its table.
	Measured func(k table.Key, tokens int, routing string, c ep.Config) (seconds float64, ok bool)
}

// prefers reports whether the newcomer's row takes the place of the incumbent's at a
// token count. A row for any routing must have been measured under all that the
// incumbent was: of fewer the worst is always better. Where its run has measured both
// choices, its search has decided between them, on one machine within minutes, unless
// they tie under all routings. Else gains of two runs are compared, which are each of
// a row's worst token count and routing.
func (r Rule) prefers(newcomer, old *table.Row, tokens int) bool {
	if old.Key.Routing == ep.AllRoutings && !covers(newcomer, old) {
		return false
	}
	if tie, known := r.compare(newcomer, old, tokens); known {
		return !tie
	}
	n, o := newcomer.Evidence, old.Evidence
	return n.Gain > o.Gain*(1+r.Band) && n.GainLow > o.GainHigh
}

// covers reports whether a row was measured under all routings that another was.
func covers(r, other *table.Row) bool {
	return !slices.ContainsFunc(other.Evidence.Routings, func(spec string) bool {
		return !slices.Contains(r.Evidence.Routings, spec)
	})
}

// compare says whether the incumbent's choice is as good as the newcomer's under
// every routing; known is false where the newcomer's run did not measure both.
func (r Rule) compare(newcomer, old *table.Row, tokens int) (tie, known bool) {
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
