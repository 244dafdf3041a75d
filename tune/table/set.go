package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// Source is one table of a Set and where it came from.
type Source struct {
	Name  string // path, or the layer's name for embedded tables
	Table *Table

	vectors  [][KeyFields]int // of the rows' keys
	places   []int32          // of the rows among all of the set, see Set.order
	fallback []int            // the table's fallback order as places in a Vector
	verified bool
}

// Set is an overlay of tables, lowest first: where two rows cover the same
// tokens of the same key the upper one answers. A Set never changes; to reload,
// build another at a point where all ranks do.
type Set struct {
	sources  []Source
	warnings []error
}

// Overlay makes a Set of tables, the lowest layer first.
func Overlay(sources ...Source) *Set {
	s := &Set{sources: slices.Clone(sources)}
	for i := range s.sources {
		s.sources[i].index()
	}
	s.order()
	return s
}

func (s *Source) index() {
	s.vectors = make([][KeyFields]int, len(s.Table.Rows))
	for i, r := range s.Table.Rows {
		s.vectors[i] = r.Key.Vector()
	}
	s.fallback = nil
	for _, f := range s.Table.Header.Fallback {
		s.fallback = append(s.fallback, slices.Index(Fields(), f))
	}
	s.verified = !s.Table.Header.Edited
}

// Sources lists the tables, the lowest layer first.
func (s *Set) Sources() []Source { return s.sources }

// Warnings lists tables that were found and could not be used.
func (s *Set) Warnings() []error { return s.warnings }

// Host is where a lookup runs.
type Host struct {
	Machine ep.Machine
	// ABI of the kernels linked here, to be compared with the table's. An
	// empty one means unknown, which leaves every answer unverified.
	ABI string
	// Check says whether a config can run; nil trusts the table.
	Check func(ep.Machine, ep.Problem, ep.Config) error
}

// Refusal says why a table may not be used on this host for a problem, nil if
// it may. Refused are another machine, other kernels, and rank counts or
// formats that the table has no row for.
func (t *Table) Refusal(h Host, p ep.Problem) error {
	head := t.Header
	if want, got := head.Machine.Key(), h.Machine.Key(); want != got {
		return fmt.Errorf("machine: the table is for %s, this is %s", want, got)
	}
	if h.ABI != "" && h.ABI != head.ABI {
		return fmt.Errorf("abi: the table is for kernels %.12s, these are %.12s; tune again", head.ABI, h.ABI)
	}
	ranks, formats := t.speaksOf(KeyOf(p, ep.AllRoutings))
	if !ranks {
		return fmt.Errorf("ranks: the table has no row for %d ranks, and a choice never crosses rank counts", p.Ranks)
	}
	if !formats {
		return fmt.Errorf("dispatch: the table has no row for %s, and a choice never crosses formats", p.Dispatch)
	}
	return nil
}

// speaksOf reports whether any row has the ranks and the formats of a key.
func (t *Table) speaksOf(k Key) (ranks, formats bool) {
	for _, r := range t.Rows {
		ranks = ranks || r.Key.Ranks == k.Ranks
		formats = formats || r.Key.Dispatch == k.Dispatch && r.Key.Combine == k.Combine
	}
	return ranks, formats
}

// Doubts lists why a table that may be used here is not verified for here:
// another driver or CUDA, unknown kernels, or an edit by hand.
func (t *Table) Doubts(h Host) []string {
	var out []string
	head := t.Header
	if head.Edited {
		out = append(out, "edited by hand")
	}
	if h.ABI == "" {
		out = append(out, "abi unknown here")
	}
	for _, f := range []struct{ name, table, host string }{
		{"driver", head.Machine.Driver, h.Machine.Driver},
		{"cuda", minor(head.Machine.CUDA), minor(h.Machine.CUDA)},
	} {
		if f.table != f.host {
			out = append(out, fmt.Sprintf("%s %s, measured under %s", f.name, orUnknown(f.host), orUnknown(f.table)))
		}
	}
	return out
}

// minor is a version up to its second number: patch releases are alike.
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// For narrows the set to the tables that may be used on a host for a problem.
// Notes say what was refused and what is unverified, one line a table.
func (s *Set) For(h Host, p ep.Problem) (usable *Set, notes []string) {
	usable = &Set{warnings: s.warnings}
	for _, src := range s.sources {
		if err := src.Table.Refusal(h, p); err != nil {
			notes = append(notes, fmt.Sprintf("%s: refused: %v", src.Name, err))
			continue
		}
		doubts := src.Table.Doubts(h)
		if src.verified = len(doubts) == 0; !src.verified {
			notes = append(notes, fmt.Sprintf("%s: unverified: %s", src.Name, strings.Join(doubts, ", ")))
		}
		usable.sources = append(usable.sources, src)
	}
	return usable, notes
}

// Lookup answers one question without preparation, for tools; it walks all
// rows. A process that asks often resolves once and uses Resolved.Lookup.
func (s *Set) Lookup(k Key, tokens int) Answer {
	query := k.Vector()
	for _, e := range s.matches(query) {
		if r := s.sources[e.source].Table.Rows[e.row]; r.Lo <= tokens && tokens <= r.Hi {
			return s.answer(e, query)
		}
	}
	return Answer{Reason: s.silence(k)}
}

// silence is the reason of an answer without a row: Refused when no table has
// a row for the ranks and the formats, which are never crossed.
func (s *Set) silence(k Key) Reason {
	for _, src := range s.sources {
		if ranks, formats := src.Table.speaksOf(k); ranks && formats {
			return Uncovered
		}
	}
	return Refused
}

// Lookup answers from one table, as Set.Lookup does.
func (t *Table) Lookup(k Key, tokens int) Answer {
	return Overlay(Source{Table: t}).Lookup(k, tokens)
}
