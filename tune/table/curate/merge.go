package curate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// Effect says what a merge did to a row of the incumbent table. The other table is called the newcomer.
type Effect string

const (
	Stays     Effect = "stays"     // the newcomer's row was not better
	Replaced  Effect = "replaced"  // the newcomer's row was better beyond the band
	Refreshed Effect = "refreshed" // same config, later evidence
	Nearer    Effect = "nearer"    // a row that was measured at a nearer token count replaced it
)

// Overlap is an interval of token counts for which both tables had evidence.
type Overlap struct {
	Key      table.Key
	Lo       int
	Hi       int // inclusive
	Effect   Effect
	Old, New *table.Row
}

// Comparable returns why two tables cannot be merged, or nil. Their machines, SM bounds and hooks (table.Header.Hooks)
// must be equal. If one of their builds lacks the hashes of single kernels, the builds must be equal too.
func Comparable(a, b table.Header) error {
	switch {
	case a.Machine.Key() != b.Machine.Key():
		return fmt.Errorf("machine: %s and %s; a table serves one machine; ship both tables side by side", a.Machine.Key(), b.Machine.Key())
	case slices.Contains(a.ABI.Changed(b.ABI), ep.AllKernels) || (a.ABI == "") != (b.ABI == ""):
		return fmt.Errorf("abi: %s and %s; tune both with one build", a.ABI.Short(), b.ABI.Short())
	case a.Hooks != b.Hooks:
		return fmt.Errorf("hooks: %q and %q; a table serves callers with one set of hooks; ship both tables side by side", a.Hooks, b.Hooks)
	case a.MaxSMs != b.MaxSMs:
		return fmt.Errorf("max_sms: %d and %d; their gains are measured against different defaults; ship both tables side by side", a.MaxSMs, b.MaxSMs)
	}
	return nil
}

// Merge adds a newcomer's rows to an incumbent table. It returns the merged table, and what it did on every interval
// that both tables cover.
//
// If only one table was measured at a token count, Merge takes this table's row there. If both were measured, the
// incumbent's row stays unless the rule prefers the newcomer's row. We do not take the larger gain: after many merges
// it would mostly be luck. Between two measured counts, the rows meet at the geometric mean of the counts.
//
// A row of a later build replaces a row of an earlier build everywhere.
func Merge(old, newcomer *table.Table, rule Rule) (*table.Table, []Overlap, error) {
	if err := Comparable(old.Header, newcomer.Header); err != nil {
		return nil, nil, err
	}
	old, newcomer = stated(old), stated(newcomer)
	out := &table.Table{Schema: table.Schema, Header: mergeHeaders(old.Header, newcomer.Header)}
	rule.builds = out.Header.ABI
	var overlaps []Overlap
	for _, g := range groups(old, newcomer) {
		points := g.points(rule)
		for _, s := range g.cut(ends(points)...) {
			row, near := s.winner(points, rule)
			out.Rows = appendRow(out.Rows, *row, s.lo, s.hi)
			overlaps = appendOverlap(overlaps, s.overlap(row, near))
		}
	}
	return out, overlaps, out.Seal()
}

// stated returns a table in which every row names its build. It leaves out rows without sufficient evidence.
func stated(t *table.Table) *table.Table {
	out := *t
	out.Rows = slices.DeleteFunc(slices.Clone(t.Rows), func(r table.Row) bool { return restsOnOne(r) || !t.Header.Certain(r) })
	for i, r := range out.Rows {
		out.Rows[i].ABI = t.Header.Build(r)
	}
	return &out
}

func (s segment) choose(tokens int, rule Rule) *table.Row {
	switch {
	case s.a == nil:
		return s.b
	case s.b == nil:
		return s.a
	case rule.builds.Serves(s.a.ABI) != rule.builds.Serves(s.b.ABI):
		if rule.builds.Serves(s.a.ABI) {
			return s.a
		}
		return s.b
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

func (s segment) overlap(row *table.Row, near *point) Overlap {
	o := Overlap{Key: s.key, Lo: s.lo, Hi: s.hi, Old: s.a, New: s.b}
	switch {
	case s.a == nil:
	case !sameConfig(s.a, row):
		o.New, o.Effect = row, Replaced
		if near != nil && !measuredAt(s.a, near.tokens) {
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

// compareEvidence orders evidence by date, rounds and content, so that the order of merging does
// not matter.
func compareEvidence(a, b table.Evidence) int {
	return cmp.Or(a.Date.Compare(b.Date), cmp.Compare(a.Rounds, b.Rounds),
		cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
}

func sameRow(a, b *table.Row) bool {
	return sameConfig(a, b) && a.ABI == b.ABI && compareEvidence(a.Evidence, b.Evidence) == 0
}

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

func mergeHeaders(a, b table.Header) table.Header {
	out, early := a, b
	if cmp.Or(a.Created.Compare(b.Created), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))) < 0 {
		out, early = b, a
	}
	out.Tool = union(out.Tool, early.Tool)
	out.Space = union(out.Space, early.Space)
	out.Policy = union(out.Policy, early.Policy)
	out.TrialLog = union(out.TrialLog, early.TrialLog)
	out.Fallback, out.ABI = a.Fallback, early.ABI.Overlay(out.ABI)
	out.AA, out.Band = max(a.AA, b.AA), max(a.Band, b.Band)
	out.Edited = a.Edited || b.Edited
	out.Receipts = slices.Concat(a.Receipts, b.Receipts)
	slices.Sort(out.Receipts)
	out.Receipts = slices.Compact(out.Receipts)
	return out
}

const listSeparator = " + "

func union(a, b string) string {
	parts := append(strings.Split(a, listSeparator), strings.Split(b, listSeparator)...)
	slices.Sort(parts)
	parts = slices.DeleteFunc(slices.Compact(parts), func(p string) bool { return p == "" })
	return strings.Join(parts, listSeparator)
}

// Rule decides between two rows that were measured at the same token count with different configs.
type Rule struct {
	// Band is the largest relative difference of two times that does not matter.
	Band float64
	// Measured returns the seconds of a config in the newcomer's run. It may be nil.
	Measured func(k table.Key, tokens int, routing string, c ep.Config) (seconds float64, ok bool)

	builds ep.ABI // latest build of every kernel
}

// prefers reports whether the newcomer's row replaces the incumbent's at a token count. An incumbent's row for all
// routings stays unless the newcomer's row was measured under the same routings. If the newcomer's run timed both
// configs, these times decide.
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

func coversRoutings(r, other *table.Row) bool {
	return !slices.ContainsFunc(other.Evidence.Routings, func(spec string) bool {
		return !slices.Contains(r.Evidence.Routings, spec)
	})
}

// tie reports whether the incumbent's config is as fast as the newcomer's under every routing. known is false if the
// newcomer's run did not time both configs.
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
