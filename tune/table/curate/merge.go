package curate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/table"
)

// Effect is what a merge did to the incumbent's row.
type Effect string

const (
	Stays     Effect = "stays"     // the newcomer did not beat it
	Replaced  Effect = "replaced"  // the newcomer beat it by more than the band
	Refreshed Effect = "refreshed" // same config, later evidence
	Nearer    Effect = "nearer"    // it was measured further away than another row, which took its place
)

// Overlap is a stretch of token counts for which the incumbent had a row and the
// newcomer had something to say, with both rows and what came of it.
type Overlap struct {
	Key      table.Key
	Lo       int
	Hi       int // inclusive
	Effect   Effect
	Old, New *table.Row
}

// Comparable says why two tables cannot be merged; nil means that they can. They must
// be of one machine, one kernel build and one bound on SMs.
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

// Merge lays a newcomer's rows into an incumbent table, and lists what came of every
// stretch that both cover. It changes neither table.
//
// At a token count that one table was measured at, that table's row holds. Where both
// were measured and their configs differ, the incumbent stays unless the rule prefers
// the newcomer. Taking the better number was not done: over many merges that collects
// lucky draws. Between two measured token counts the row of the nearer one holds, by
// ratio, and only where one of the tables has a row at all. The fallback fields stay
// the incumbent's.
func Merge(old, newcomer *table.Table, rule Rule) (*table.Table, []Overlap, error) {
	if err := Comparable(old.Header, newcomer.Header); err != nil {
		return nil, nil, err
	}
	out := &table.Table{Schema: table.Schema, Header: mergeHeaders(old.Header, newcomer.Header)}
	var overlaps []Overlap
	for _, g := range groups(old, newcomer) {
		points := g.points(rule)
		for _, s := range g.cut(ends(points)...) {
			row, near := s.winner(points)
			out.Rows = appendRow(out.Rows, *row, s.lo, s.hi)
			overlaps = appendOverlap(overlaps, s.overlap(row, near))
		}
	}
	return out, overlaps, out.Seal()
}

// choose picks between the rows of a segment at a token count that both were measured at.
func (s segment) choose(tokens int, rule Rule) *table.Row {
	switch {
	case s.a == nil:
		return s.b
	case s.b == nil:
		return s.a
	case sameConfig(s.a, s.b):
		if compareEvidence(s.a.Evidence, s.b.Evidence) >= 0 {
			return s.a
		}
		return s.b
	case rule.prefers(s.b, s.a, tokens):
		return s.b
	}
	return s.a
}

// overlap says what became of a segment. Its effect is "" where the tables do not meet.
func (s segment) overlap(row *table.Row, near *point) Overlap {
	o := Overlap{Key: s.key, Lo: s.lo, Hi: s.hi, Old: s.a, New: s.b}
	switch {
	case s.a == nil:
	case !sameConfig(s.a, row):
		o.New, o.Effect = row, Replaced // by the newcomer's row here, or by the one beside it
		if !measuredAt(s.a, near.tokens) {
			o.Effect = Nearer
		}
	case s.b == nil:
	case !sameConfig(s.a, s.b):
		o.Effect = Stays
	case row == s.b:
		o.Effect = Refreshed
	}
	return o
}

// appendOverlap adds an overlap, or lengthens the last one where it goes on.
func appendOverlap(all []Overlap, o Overlap) []Overlap {
	if o.Effect == "" {
		return all
	}
	if n := len(all) - 1; n >= 0 && all[n].Hi+1 == o.Lo {
		last := all[n]
		last.Lo, last.Hi = o.Lo, o.Hi
		if last == o {
			all[n].Hi = o.Hi
			return all
		}
	}
	return append(all, o)
}

// compareEvidence orders evidence for one config: later first, then more rounds, then
// by content, so that the order of merging does not matter.
func compareEvidence(a, b table.Evidence) int {
	return cmp.Or(a.Date.Compare(b.Date), cmp.Compare(a.Rounds, b.Rounds),
		cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
}

// sameRow reports whether two rows of one key say the same on the same evidence.
func sameRow(a, b *table.Row) bool {
	return sameConfig(a, b) && compareEvidence(a.Evidence, b.Evidence) == 0
}

// appendRow adds a row for a segment, or lengthens the last row where it goes on.
func appendRow(rows []table.Row, r table.Row, lo, hi int) []table.Row {
	if n := len(rows) - 1; n >= 0 {
		last := &rows[n]
		if last.Key == r.Key && last.Hi+1 == lo && sameRow(last, &r) {
			last.Hi = hi
			return rows
		}
	}
	r.Lo, r.Hi = lo, hi
	return append(rows, r)
}

// mergeHeaders describes a merged table: the later table's machine, the union of what
// both were made from, the larger A/A spread and band, the fallback fields of a.
func mergeHeaders(a, b table.Header) table.Header {
	out, early := a, b
	if cmp.Or(a.Created.Compare(b.Created), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))) < 0 {
		out, early = b, a
	}
	out.Tool = union(out.Tool, early.Tool)
	out.Space = union(out.Space, early.Space)
	out.Policy = union(out.Policy, early.Policy)
	out.TrialLog = union(out.TrialLog, early.TrialLog)
	out.Fallback = a.Fallback
	out.AA, out.Band = max(a.AA, b.AA), max(a.Band, b.Band)
	out.Edited = a.Edited || b.Edited
	return out
}

// listSeparator stands between what a merged table was made from.
const listSeparator = " + "

// union joins two such lists, sorted and without repeats.
func union(a, b string) string {
	parts := append(strings.Split(a, listSeparator), strings.Split(b, listSeparator)...)
	slices.Sort(parts)
	parts = slices.DeleteFunc(slices.Compact(parts), func(p string) bool { return p == "" })
	return strings.Join(parts, listSeparator)
}
