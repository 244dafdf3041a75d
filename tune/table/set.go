package table

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// Source is one table of a Set and where it came from.
type Source struct {
	Name  string // path of the file, for messages
	Table *Table

	similar  bool  // the table is of another machine, which the host takes
	fallback []int // the table's fallback fields, as places in Fields
	refused  bool  // the table may not be used on the host of the Set
	verified bool  // nothing is in doubt about it there
}

// Set is several tables laid over each other, the lowest first. Where two rows
// cover the same tokens of the same key, the row of the upper table answers. A Set
// never changes, so that a step of one rank and a step of another see the same. To
// reload, build another Set at a point where all ranks do.
type Set struct {
	sources  []Source
	rows     []indexedRow // of all sources, in the order that breaks ties
	warnings []error
}

// indexedRow is a row with its key as numbers.
type indexedRow struct {
	row     *Row
	key     [KeyFields]int
	source  int
	other   bool // of another build of its kernels than the host's
	similar bool // of another machine, see Host.OtherMachines
}

// Overlay makes a Set of tables, the lowest first.
func Overlay(sources ...Source) *Set {
	s := &Set{sources: slices.Clone(sources)}
	for i := range s.sources {
		src := &s.sources[i]
		src.fallback, src.verified = nil, !src.Table.Header.Edited
		for _, f := range src.Table.Header.Fallback {
			src.fallback = append(src.fallback, slices.Index(Fields(), f))
		}
		for j := range src.Table.Rows {
			row := &src.Table.Rows[j]
			s.rows = append(s.rows, indexedRow{row: row, key: row.Key.Vector(), source: i})
		}
	}
	slices.SortFunc(s.rows, func(a, b indexedRow) int {
		return cmp.Or(slices.Compare(a.key[:], b.key[:]), cmp.Compare(b.source, a.source), cmp.Compare(a.row.Lo, b.row.Lo))
	})
	return s
}

// Sources lists the tables that may be used, the lowest first.
func (s *Set) Sources() []Source {
	return slices.DeleteFunc(slices.Clone(s.sources), func(src Source) bool { return src.refused })
}

// Warnings lists tables that Open found and could not read.
func (s *Set) Warnings() []error { return s.warnings }

// usable goes through the rows of the tables that may be used.
func (s *Set) usable() iter.Seq2[int, *indexedRow] {
	return func(yield func(int, *indexedRow) bool) {
		for i := range s.rows {
			if !s.sources[s.rows[i].source].refused && !yield(i, &s.rows[i]) {
				return
			}
		}
	}
}

// Host is where a look-up runs.
type Host struct {
	Machine ep.Machine
	// ABI is the build of the kernels linked here. Empty means unknown, which
	// leaves every answer unverified.
	ABI ep.ABI
	// OtherKernels also takes rows of other builds of the kernels. They answer behind
	// all rows of this build, and the answer says so.
	OtherKernels bool
	// OtherMachines also takes tables of other GPUs of the same architecture and link,
	// see ep.Machine.Similar. Their rows answer behind all rows of this machine, and the
	// answer says so. epbench compare --of swapped judges it by recorded runs of both.
	OtherMachines bool
	// Hooks is what the caller asks of the kernels, as in Header.Hooks. A table for
	// callers that ask for nothing answers all.
	Hooks string
	// Check says whether a config can run here; nil trusts the table.
	Check func(ep.Machine, ep.Problem, ep.Config) error
}

// Refusal says why a table may not be used on this host for a problem; nil means
// that it may. Refused are a table of another machine, a table for callers that ask
// something else of the kernels, a table whose rows are all of other builds of their
// kernels, unless the host takes these, and a table without a row for the problem's rank
// count and dtypes.
func (t *Table) Refusal(h Host, p ep.Problem) error {
	head := t.Header
	if want, got := head.Machine.Key(), h.Machine.Key(); want != got && !h.AcceptsMachine(head.Machine) {
		return fmt.Errorf("machine: the table is for %s, this is %s", want, got)
	}
	if head.Hooks != "" && head.Hooks != h.Hooks {
		return fmt.Errorf("hooks: the table is for callers with %s", head.Hooks)
	}
	if !h.OtherKernels && len(t.Rows) > 0 && !slices.ContainsFunc(t.Rows, func(r Row) bool { return h.Runs(head, r) }) {
		return fmt.Errorf("abi: the table is for kernels %s, these are %s; tune again", head.ABI.Short(), h.ABI.Short())
	}
	ranks, dtypes := t.hasRows(KeyOf(p, ep.AllRoutings))
	if !ranks {
		return fmt.Errorf("ranks: the table has no row for %d ranks, and no answer crosses rank counts", p.Ranks)
	}
	if !dtypes {
		return fmt.Errorf("dispatch: the table has no row for %s, and no answer crosses dtypes", p.Dispatch)
	}
	return nil
}

// Takes reports whether tables of another machine may answer here.
func (h Host) AcceptsMachine(other ep.Machine) bool {
	return h.OtherMachines && h.Machine.Similar(other)
}

// Runs reports whether the kernels of a row are those linked here, as far as is known.
// A row that keeps the default launches no kernel of its own: it need not name one.
func (h Host) Runs(head Header, r Row) bool {
	return h.ABI == "" || (head.ABI != "" || r.ABI != "") && h.ABI.Serves(head.Build(r))
}

// Others counts the rows of a table that rest on other builds of their kernels than the
// host's.
func (t *Table) OtherBuilds(h Host) (n int) {
	for _, r := range t.Rows {
		if !h.Runs(t.Header, r) {
			n++
		}
	}
	return n
}

// knows reports whether any row has the ranks, and whether any has the dtypes, of a key.
func (t *Table) hasRows(k Key) (ranks, dtypes bool) {
	for _, r := range t.Rows {
		ranks = ranks || r.Key.Ranks == k.Ranks
		dtypes = dtypes || r.Key.Dispatch == k.Dispatch && r.Key.Combine == k.Combine
	}
	return ranks, dtypes
}

// Doubts lists what keeps a table that may be used here from being verified here:
// another driver or CUDA version, unknown kernels, an edit by hand.
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
			out = append(out, fmt.Sprintf("%s %s, measured under %s", f.name, cmp.Or(f.host, "unknown"), cmp.Or(f.table, "unknown")))
		}
	}
	return out
}

// minor is a version up to its second number: patch releases are alike.
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

// For narrows the set to the rows that may be used on a host for a problem. The notes
// say what was refused, what is of other kernels and what is unverified.
func (s *Set) For(h Host, p ep.Problem) (usable *Set, notes []string) {
	narrow := *s
	narrow.sources = slices.Clone(s.sources)
	for i := range narrow.sources {
		src := &narrow.sources[i]
		if err := src.Table.Refusal(h, p); err != nil {
			src.refused = true
			notes = append(notes, fmt.Sprintf("%s: refused: %v", src.Name, err))
			continue
		}
		if src.similar = h.AcceptsMachine(src.Table.Header.Machine); src.similar {
			notes = append(notes, fmt.Sprintf("%s: of another machine, %s: its rows answer where no row of this machine does", src.Name, src.Table.Header.Machine.Name))
		}
		doubts := src.Table.Doubts(h)
		if src.verified = len(doubts) == 0 && !src.similar; len(doubts) > 0 {
			notes = append(notes, fmt.Sprintf("%s: unverified: %s", src.Name, strings.Join(doubts, ", ")))
		}
		if n := src.Table.OtherBuilds(h); n > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d of %d rows were measured with other builds of their kernels: %s", src.Name, n, len(src.Table.Rows), othersAnswer(h)))
		}
	}
	narrow.rows = narrow.build(h)
	return &narrow, notes
}

func othersAnswer(h Host) string {
	if h.OtherKernels {
		return "they answer where no other row does"
	}
	return "they do not answer"
}

// build marks the rows of other builds than a host's, and drops them where the host
// does not take them.
func (s *Set) build(h Host) []indexedRow {
	out := slices.Clone(s.rows)
	for i := range out {
		out[i].similar = s.sources[out[i].source].similar
		out[i].other = !h.Runs(s.sources[out[i].source].Table.Header, *out[i].row)
	}
	return slices.DeleteFunc(out, func(r indexedRow) bool { return r.other && !h.OtherKernels })
}
