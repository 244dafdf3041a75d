package curate

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// Severity says what a finding means for shipping.
type Severity string

const (
	Bad  Severity = "error"   // do not ship
	Note Severity = "warning" // know before shipping
)

// Finding is one thing wrong with a table. Row is its index, -1 for the table.
type Finding struct {
	Row      int
	Severity Severity
	Rule     string // short name
	Text     string
}

// Legality says whether a config can run. A nil Legality judges nothing: the table's
// kernels are not known here.
type Legality func(ep.Machine, ep.Problem, ep.Config) error

// minRounds is the least number of rounds whose bootstrap interval means anything.
const minRounds = 10

// rowRules lists what is asked of each row. A new rule is one line here.
var rowRules = []struct {
	name     string
	severity Severity
	// fault says what is wrong with a row; "" is nothing.
	fault func(table.Header, table.Row) string
}{
	{"gain", Bad, unsupportedGain},
	{"spread", Note, withinSpread},
	{"worst", Note, losesSomewhere},
	{"interval", Bad, crossedInterval},
	{"measured", Bad, unmeasured},
	{"ends", Note, guessedEnds},
	{"rounds", Note, fewRounds},
	{"routings", Note, oneRouting},
	{"complete", Note, incomplete},
}

// Lint lists what is wrong with a table, rows in order. band is the relative difference
// that does not matter. Rows that overlap and a wrong id never come here: table.Load
// refuses them.
func Lint(t *table.Table, legal Legality, band float64) []Finding {
	out := lintHeader(t.Header, band)
	for i, r := range t.Rows {
		for _, rule := range rowRules {
			if fault := rule.fault(t.Header, r); fault != "" {
				out = append(out, Finding{i, rule.severity, rule.name, fault})
			}
		}
		if fault := illegal(t.Header.Machine, r, legal); fault != "" {
			out = append(out, Finding{i, Bad, "legal", fault})
		}
	}
	out = append(out, holes(t)...)
	slices.SortStableFunc(out, func(a, b Finding) int { return a.Row - b.Row })
	return out
}

func lintHeader(h table.Header, band float64) []Finding {
	var out []Finding
	if h.Edited {
		out = append(out, Finding{-1, Bad, "edited", "the content was changed after it was written"})
	}
	if h.AA > band {
		out = append(out, Finding{-1, Bad, "aa", fmt.Sprintf("the default differs from itself by %.2f %%, more than the band of %.2f %%: the machine was not quiet", 100*h.AA, 100*band)})
	}
	if h.ABI == "" {
		out = append(out, Finding{-1, Note, "abi", "no kernel hash: a changed kernel would go unnoticed"})
	}
	return out
}

// unsupportedGain refuses a row that leaves the default without proof that its config
// is faster.
func unsupportedGain(h table.Header, r table.Row) string {
	if e := r.Evidence; !h.IsDefault(r) && r.Key.Routing != ep.AllRoutings && e.GainLow <= 1 {
		return fmt.Sprintf("gain %.3f [%.3f, %.3f] does not exclude 1: keep the default", e.Gain, e.GainLow, e.GainHigh)
	}
	return ""
}

// withinSpread warns of a gain below the run's A/A spread. That spread is the largest
// of all searches, and the row's own search may have been quieter, hence no error.
func withinSpread(h table.Header, r table.Row) string {
	if !h.IsDefault(r) && r.Evidence.Gain < 1+h.AA {
		return fmt.Sprintf("gain %.3f is within the run's largest A/A spread of %.2f %%", r.Evidence.Gain, 100*h.AA)
	}
	return ""
}

// losesSomewhere warns of a row for all routings that is not faster than the default
// under each. No error: such a row has the smallest regret, and its gain is that of its
// worst routing.
func losesSomewhere(h table.Header, r table.Row) string {
	if e := r.Evidence; !h.IsDefault(r) && r.Key.Routing == ep.AllRoutings && e.GainLow <= 1 {
		return fmt.Sprintf("under its worst routing the gain is %.3f [%.3f, %.3f]", e.Gain, e.GainLow, e.GainHigh)
	}
	return ""
}

func crossedInterval(_ table.Header, r table.Row) string {
	e := r.Evidence
	switch {
	case e.GainLow > e.Gain || e.Gain > e.GainHigh:
		return fmt.Sprintf("gain %.4f lies outside its interval [%.4f, %.4f]", e.Gain, e.GainLow, e.GainHigh)
	case e.P10 > e.Median || e.Median > e.P90:
		return fmt.Sprintf("median %g lies outside p10 %g and p90 %g", e.Median, e.P10, e.P90)
	case e.Ties > e.Tried:
		return fmt.Sprintf("%d ties among %d configs tried", e.Ties, e.Tried)
	}
	return ""
}

func unmeasured(_ table.Header, r table.Row) string {
	e := r.Evidence
	if e.Rounds == 0 || e.Median == 0 || e.Clock == "" {
		return "no rounds behind it"
	}
	if !slices.ContainsFunc(e.Tokens, func(n int) bool { return r.Lo <= n && n <= r.Hi }) {
		return fmt.Sprintf("no token count of %d to %d was measured", r.Lo, r.Hi)
	}
	return ""
}

func guessedEnds(_ table.Header, r table.Row) string {
	for _, end := range []int{r.Lo, r.Hi} {
		if !slices.Contains(r.Evidence.Tokens, end) {
			return fmt.Sprintf("its end at %d tokens was not measured", end)
		}
	}
	return ""
}

func fewRounds(_ table.Header, r table.Row) string {
	if n := r.Evidence.Rounds; n > 0 && n < minRounds {
		return fmt.Sprintf("%d rounds, below %d an interval means little", n, minRounds)
	}
	return ""
}

func oneRouting(_ table.Header, r table.Row) string {
	if n := len(r.Evidence.Routings); r.Key.Routing == ep.AllRoutings && n < 2 {
		return fmt.Sprintf("it is for all routings and was measured under %d", n)
	}
	return ""
}

func incomplete(_ table.Header, r table.Row) string {
	if !r.Evidence.Complete {
		return fmt.Sprintf("%d configs tried, not the whole legal space", r.Evidence.Tried)
	}
	return ""
}

// illegal asks the kernel at both ends of a row.
func illegal(m ep.Machine, r table.Row, legal Legality) string {
	if legal == nil || r.Config.IsDefault() {
		return ""
	}
	for _, tokens := range []int{r.Lo, r.Hi} {
		if err := legal(m, r.Key.Problem(tokens), r.Config); err != nil {
			return fmt.Sprintf("at %d tokens: %v", tokens, err)
		}
	}
	return ""
}

// holes finds token counts between the rows of a key, and keys without a row for all
// routings: there an unknown routing gets the default.
func holes(t *table.Table) []Finding {
	var out []Finding
	served := map[table.Key]bool{}
	for _, r := range t.Rows {
		served[r.Key] = true
	}
	for i := 1; i < len(t.Rows); i++ {
		p, q := t.Rows[i-1], t.Rows[i]
		if p.Key == q.Key && p.Hi+1 < q.Lo {
			out = append(out, Finding{i, Note, "hole", fmt.Sprintf("tokens %d to %d before it have no row", p.Hi+1, q.Lo-1)})
		}
	}
	for i, r := range t.Rows {
		k := r.Key
		if k.Routing = ep.AllRoutings; !served[k] {
			served[k] = true
			out = append(out, Finding{i, Note, "hole", "no row for all routings beside it: an unknown routing gets the default"})
		}
	}
	return out
}
