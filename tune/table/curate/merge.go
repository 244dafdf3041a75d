package curate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/table"
)

// Outcome is what merging did with a stretch of tokens that both tables cover.
type Outcome string

const (
	Stays     Outcome = "stays"     // the incumbent was not beaten
	Replaced  Outcome = "replaced"  // the newcomer beat it by more than the band
	Refreshed Outcome = "refreshed" // same choice, later evidence
	Nearer    Outcome = "nearer"    // the incumbent was not measured at the nearest token count
)

// Decision shows old and new evidence for one stretch and what came of it.
type Decision struct {
	Key      table.Key
	Lo       int
	Hi       int // inclusive
	Outcome  Outcome
	Old, New *table.Row
}

// Comparable says why two tables cannot be merged, nil if they can: they must
// be of one machine and kernel build.
func Comparable(a, b table.Header) error {
	switch {
	case a.Machine.Key() != b.Machine.Key():
		return fmt.Errorf("machine: %s and %s; a table serves one machine, ship both side by side", a.Machine.Key(), b.Machine.Key())
	case a.ABI != b.ABI:
		return fmt.Errorf("abi: %.12s and %.12s; tune both with one build", a.ABI, b.ABI)
	case a.MaxSMs != b.MaxSMs:
		return fmt.Errorf("max_sms: %d and %d; their gains are over other defaults, ship both side by side", a.MaxSMs, b.MaxSMs)
	}
	return nil
}

// Merge lays a newcomer's rows into an incumbent table. At each token count that
// either was measured at, the row of that table has it; where both were and choose
// differently, the incumbent stays unless the rule prefers the newcomer. Keeping
// whichever number is best was not taken: over many merges it collects lucky draws.
// Between two such token counts the row of the nearer one holds, as far as either
// table says anything. What look-ups may give up stays the incumbent's affair. Neither
// table is changed.
func Merge(old, newcomer *table.Table, rule Rule) (*table.Table, []Decision, error) {
	if err := Comparable(old.Header, newcomer.Header); err != nil {
		return nil, nil, err
	}
	out := &table.Table{Schema: table.Schema, Header: mergeHeaders(old.Header, newcomer.Header)}
	var decisions []Decision
	for _, g := range groups(old, newcomer) {
		points := g.points(rule)
		for _, s := range g.cut(ends(points)...) {
			row, near := s.heir(points)
			out.Rows = appendRow(out.Rows, *row, s.lo, s.hi)
			decisions = appendDecision(decisions, s.decision(row, near))
		}
	}
	return out, decisions, out.Seal()
}

// choose picks the row of a token count at which the rows of a segment were measured.
func (s segment) choose(tokens int, rule Rule) *table.Row {
	switch {
	case s.a == nil:
		return s.b
	case s.b == nil:
		return s.a
	case sameChoice(s.a, s.b):
		if compareEvidence(s.a.Evidence, s.b.Evidence) >= 0 {
			return s.a
		}
		return s.b
	case rule.prefers(s.b, s.a, tokens):
		return s.b
	}
	return s.a
}

// decision says what came of a segment; its outcome is "" where nothing competed.
func (s segment) decision(row *table.Row, near *point) Decision {
	d := Decision{Key: s.key, Lo: s.lo, Hi: s.hi, Old: s.a, New: s.b}
	switch {
	case s.a == nil:
	case !sameChoice(s.a, row):
		d.New, d.Outcome = row, Replaced // by the newcomer's row here, or by the one beside it
		if !measuredAt(s.a, near.tokens) {
			d.Outcome = Nearer
		}
	case s.b == nil:
	case !sameChoice(s.a, s.b):
		d.Outcome = Stays
	case row == s.b:
		d.Outcome = Refreshed
	}
	return d
}

// appendDecision adds a decision, or lengthens the last one when it only goes on.
func appendDecision(all []Decision, d Decision) []Decision {
	if d.Outcome == "" {
		return all
	}
	if n := len(all) - 1; n >= 0 {
		last := all[n]
		last.Lo, last.Hi = d.Lo, d.Hi
		if last == d && all[n].Hi+1 == d.Lo {
			all[n].Hi = d.Hi
			return all
		}
	}
	return append(all, d)
}

// compareEvidence orders evidence for one choice: later, then more rounds,
// then by content, so that the order of merging does not matter.
func compareEvidence(a, b table.Evidence) int {
	return cmp.Or(a.Date.Compare(b.Date), cmp.Compare(a.Rounds, b.Rounds),
		cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
}

// appendRow adds a row for a segment, or lengthens the last one when the
// segment only continues it.
func appendRow(rows []table.Row, r table.Row, lo, hi int) []table.Row {
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

// mergeHeaders takes the later table's description of the machine, a's relax order
// and the union of what both were made from; the least effect worth claiming is the
// larger.
func mergeHeaders(a, b table.Header) table.Header {
	late, early := a, b
	if cmp.Or(a.Created.Compare(b.Created), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))) < 0 {
		late, early = b, a
	}
	out := late
	out.Tool = union(late.Tool, early.Tool)
	out.Space = union(late.Space, early.Space)
	out.Policy = union(late.Policy, early.Policy)
	out.TrialLog = union(late.TrialLog, early.TrialLog)
	out.Fallback = a.Fallback
	out.AA, out.Band = max(a.AA, b.AA), max(a.Band, b.Band)
	out.Edited = a.Edited || b.Edited
	return out
}

// listSeparator stands between what a merged table was made from.
const listSeparator = " + "

// union joins two such lists without repeats, sorted.
func union(a, b string) string {
	var parts []string
	for _, p := range append(strings.Split(a, listSeparator), strings.Split(b, listSeparator)...) {
		if p != "" {
			parts = append(parts, p)
		}
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), listSeparator)
}
