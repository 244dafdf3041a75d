package curate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/plan"
)

// Outcome is what merging did with a stretch of tokens that both tables cover.
type Outcome string

const (
	Stays     Outcome = "stays"     // the incumbent was not beaten
	Replaced  Outcome = "replaced"  // the newcomer beat it by more than the band
	Refreshed Outcome = "refreshed" // same choice, later evidence
)

// Decision shows old and new evidence for one stretch and what came of it.
type Decision struct {
	Key      plan.Key
	Lo       int
	Hi       int // inclusive
	Outcome  Outcome
	Old, New *plan.Row
}

// Comparable says why two tables cannot be merged, nil if they can: they must
// be of one machine and kernel build and give up the same fields.
func Comparable(a, b plan.Header) error {
	switch {
	case a.Machine.Key() != b.Machine.Key():
		return fmt.Errorf("machine: %s and %s; a table serves one machine, ship both side by side", a.Machine.Key(), b.Machine.Key())
	case a.ABI != b.ABI:
		return fmt.Errorf("abi: %.12s and %.12s; tune both with one build", a.ABI, b.ABI)
	case !slices.Equal(a.Relax, b.Relax):
		return fmt.Errorf("relax: %v and %v; decide on one order first", a.Relax, b.Relax)
	}
	return nil
}

// Merge lays a newcomer's rows into an incumbent table. Where both cover the
// same tokens of the same key and choose differently, the incumbent stays
// unless the newcomer's gain beats it by more than band with intervals apart.
// Keeping whichever number is best was not taken: over many merges it collects
// lucky draws. Neither table is changed.
func Merge(old, newcomer *plan.Table, band float64) (*plan.Table, []Decision, error) {
	if err := Comparable(old.Header, newcomer.Header); err != nil {
		return nil, nil, err
	}
	out := &plan.Table{Schema: plan.Schema, Header: mergeHeaders(old.Header, newcomer.Header)}
	var decisions []Decision
	var choices []choice
	for _, s := range segments(old, newcomer) {
		row, outcome := choose(s, band)
		if outcome != "" {
			decisions = append(decisions, Decision{s.key, s.lo, s.hi, outcome, s.a, s.b})
		}
		choices = append(choices, choice{s, row, outcome})
	}
	inherit(choices)
	for _, c := range choices {
		out.Rows = appendRow(out.Rows, *c.row, c.lo, c.hi)
	}
	return out, decisions, out.Seal()
}

// choice is the row of a segment.
type choice struct {
	segment
	row     *plan.Row
	outcome Outcome
}

// inherit gives what is left of a row of the incumbent, where none of its token
// counts was measured, to the newcomer that beat it beside that, where one was:
// there is no other evidence for either. What is left of a newcomer stays its
// own, or merging it again would set it against the row that inherited.
func inherit(choices []choice) {
	for i := range choices {
		c := &choices[i]
		if c.a == nil || c.b != nil || measuredIn(*c.a, c.lo, c.hi) {
			continue
		}
		for _, j := range []int{i - 1, i + 1} {
			if j < 0 || j >= len(choices) {
				continue
			}
			if h := choices[j]; h.a == c.a && h.outcome == Replaced && measuredIn(*c.a, h.lo, h.hi) {
				c.row = h.row
			}
		}
	}
}

// measuredIn reports whether a row was measured at one of lo to hi tokens.
func measuredIn(r plan.Row, lo, hi int) bool {
	return slices.ContainsFunc(r.Evidence.Tokens, func(n int) bool { return lo <= n && n <= hi })
}

// choose picks the row of a segment; outcome is "" where nothing competes.
func choose(s segment, band float64) (row *plan.Row, outcome Outcome) {
	switch {
	case s.a == nil:
		return s.b, ""
	case s.b == nil:
		return s.a, ""
	case sameChoice(s.a, s.b):
		if compareEvidence(s.a.Evidence, s.b.Evidence) >= 0 {
			return s.a, ""
		}
		return s.b, Refreshed
	case s.b.Evidence.Gain > s.a.Evidence.Gain*(1+band) && s.b.Evidence.GainLo > s.a.Evidence.GainHi:
		return s.b, Replaced
	}
	return s.a, Stays
}

// compareEvidence orders evidence for one choice: later, then more rounds,
// then by content, so that the order of merging does not matter.
func compareEvidence(a, b plan.Evidence) int {
	return cmp.Or(a.Date.Compare(b.Date), cmp.Compare(a.Rounds, b.Rounds),
		cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
}

// appendRow adds a row for a segment, or lengthens the last one when the
// segment only continues it.
func appendRow(rows []plan.Row, r plan.Row, lo, hi int) []plan.Row {
	if n := len(rows) - 1; n >= 0 {
		last := &rows[n]
		if last.Key == r.Key && last.Hi+1 == lo && sameChoice(last, &r) && compareEvidence(last.Evidence, r.Evidence) == 0 {
			last.Hi = hi
			return rows
		}
	}
	r.Lo, r.Hi = lo, hi
	return append(rows, r)
}

// mergeHeaders takes the later table's description of the machine and the
// union of what both were made from; the least effect worth claiming is the
// larger.
func mergeHeaders(a, b plan.Header) plan.Header {
	late, early := a, b
	if cmp.Or(a.Created.Compare(b.Created), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))) < 0 {
		late, early = b, a
	}
	out := late
	out.Tool = union(late.Tool, early.Tool)
	out.Space = union(late.Space, early.Space)
	out.Policy = union(late.Policy, early.Policy)
	out.TrialLog = union(late.TrialLog, early.TrialLog)
	out.AA = max(a.AA, b.AA)
	out.Edited = a.Edited || b.Edited
	return out
}

// union joins two "+"-separated lists without repeats, sorted.
func union(a, b string) string {
	var parts []string
	for _, p := range append(strings.Split(a, " + "), strings.Split(b, " + ")...) {
		if p != "" {
			parts = append(parts, p)
		}
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), " + ")
}
