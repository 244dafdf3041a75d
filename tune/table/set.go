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
	Name  string // path of the table's file, for messages
	Table *Table

	similar  bool  // the table was measured on another machine, which the host accepts
	fallback []int // indices in Fields
	refused  bool  // the table may not be used on the host of the Set
	verified bool  // Table.Doubts finds no reason to doubt the table on the host
}

// Set overlays several tables, the lowest first: the upper table's row answers. A Set never
// changes. To reload, build another Set on all ranks between two steps.
type Set struct {
	sources  []Source
	rows     []indexedRow // if two rows tie, the first one answers
	warnings []error
	host     Host // the host to which For narrowed the set
}

// indexedRow is a row with its key as numbers.
type indexedRow struct {
	row     *Row
	config  ep.Config // in the spelling of the host's build
	key     [KeyFields]int
	source  int
	earlier bool // measured with another build of its kernels than the host's
	similar bool // measured on another machine
}

// compareIndexed orders rows by key, then the host's build, then the upper source.
func compareIndexed(a, b indexedRow) int {
	return cmp.Or(slices.Compare(a.key[:], b.key[:]), cmp.Compare(bit(a.earlier), bit(b.earlier)), cmp.Compare(b.source, a.source), cmp.Compare(a.row.Lo, b.row.Lo))
}

// Overlay returns a Set of tables, the lowest first.
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
			s.rows = append(s.rows, indexedRow{row: row, config: row.Config, key: row.Key.Vector(), source: i})
		}
	}
	slices.SortFunc(s.rows, compareIndexed)
	return s
}

// Sources lists the tables that may be used, the lowest first.
func (s *Set) Sources() []Source {
	return slices.DeleteFunc(slices.Clone(s.sources), func(src Source) bool { return src.refused })
}

// Warnings returns an error for each table that Open found and could not read.
func (s *Set) Warnings() []error { return s.warnings }

func (s *Set) usable() iter.Seq2[int, *indexedRow] {
	return func(yield func(int, *indexedRow) bool) {
		for i := range s.rows {
			if !s.sources[s.rows[i].source].refused && !yield(i, &s.rows[i]) {
				return
			}
		}
	}
}

// Host describes where a look-up runs and what its caller accepts.
type Host struct {
	Machine ep.Machine
	// ABI is the build of the kernels linked here; "" makes every answer unverified.
	ABI ep.ABI
	// OnlyThisBuild refuses rows of another build. Otherwise rows of the same revision answer, with
	// EarlierBuild set.
	OnlyThisBuild bool
	// Current converts a config of an earlier build to the spelling of this build; nil converts
	// nothing.
	Current func(ep.Config) ep.Config
	// OtherMachines also accepts tables of machines for which ep.Machine.Similar holds. Their rows
	// answer last, with OtherMachine set.
	OtherMachines bool
	// Hooks lists the caller's hooks, as in Header.Hooks. A table without hooks answers
	// every caller.
	Hooks string
	// Check returns an error if a config cannot run here. If it is nil, every config counts as
	// legal.
	Check func(ep.Machine, ep.Problem, ep.Config) error
}

// Refusal returns why a table may not be used on this host for a problem, or nil.
func (t *Table) Refusal(h Host, p ep.Problem) error {
	head := t.Header
	if want, got := head.Machine.Key(), h.Machine.Key(); want != got && !h.AcceptsMachine(head.Machine) {
		return fmt.Errorf("machine: the table is for %s, this is %s", want, got)
	}
	if head.Hooks != "" && head.Hooks != h.Hooks {
		return fmt.Errorf("hooks: the table is for callers with %s", head.Hooks)
	}
	if len(t.Rows) > 0 && !slices.ContainsFunc(t.Rows, func(r Row) bool { return h.Accepts(head, r) }) {
		return fmt.Errorf("abi: the table is for kernels %s, these are %s; tune again", head.ABI.Short(), h.ABI.Short())
	}
	ranks, dtypes := t.hasRows(KeyOf(p, ep.AllRoutings))
	if !ranks {
		return fmt.Errorf("ranks: the table has no row for %d ranks, and rows for other rank counts never answer", p.Ranks)
	}
	if !dtypes {
		return fmt.Errorf("dispatch: the table has no row for %s, and rows for other dtypes never answer", p.Dispatch)
	}
	return nil
}

// AcceptsMachine reports whether tables of another machine may answer here.
func (h Host) AcceptsMachine(other ep.Machine) bool {
	return h.OtherMachines && h.Machine.Similar(other)
}

// Certifies reports whether a row was measured with the build linked here. It is true if the host's
// build is unknown. Otherwise it is false if neither the row nor its table names a build.
func (h Host) Certifies(head Header, r Row) bool {
	return h.ABI == "" || (head.ABI != "" || r.ABI != "") && h.ABI.Serves(head.Build(r))
}

// Accepts reports whether a row's kernels have the revision of the kernels here, or with
// OnlyThisBuild their build.
func (h Host) Accepts(head Header, r Row) bool {
	if h.OnlyThisBuild || h.ABI == "" || head.ABI == "" && r.ABI == "" {
		return h.Certifies(head, r)
	}
	return h.ABI.Accepts(head.Build(r))
}

// Builds returns how many rows of earlier builds the host accepts, and how many rows it refuses
// because of their kernels.
func (t *Table) Builds(h Host) (earlier, refused int) {
	for _, r := range t.Rows {
		switch {
		case !h.Accepts(t.Header, r):
			refused++
		case !h.Certifies(t.Header, r):
			earlier++
		}
	}
	return earlier, refused
}

// hasRows reports whether any row has the rank count of a key, and its dtypes.
func (t *Table) hasRows(k Key) (ranks, dtypes bool) {
	for _, r := range t.Rows {
		ranks = ranks || r.Key.Ranks == k.Ranks
		dtypes = dtypes || r.Key.Combine == k.Combine && (r.Key.Dispatch == k.Dispatch || r.Key.Op == ep.Combine && k.Op == ep.Combine)
	}
	return ranks, dtypes
}

// Doubts returns why a usable table is not verified on this host, such as another driver.
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

// minor returns a version up to its second number.
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

// For returns the set with only the rows that a host may use for a problem, and notes about the
// other tables.
func (s *Set) For(h Host, p ep.Problem) (usable *Set, notes []string) {
	narrow := *s
	narrow.sources, narrow.host = slices.Clone(s.sources), h
	for i := range narrow.sources {
		src := &narrow.sources[i]
		if err := src.Table.Refusal(h, p); err != nil {
			src.refused = true
			notes = append(notes, fmt.Sprintf("%s: refused: %v", src.Name, err))
			continue
		}
		if src.similar = h.AcceptsMachine(src.Table.Header.Machine); src.similar {
			notes = append(notes, fmt.Sprintf("%s: of another machine, %s: its rows answer if no row of this machine does", src.Name, src.Table.Header.Machine.Name))
		}
		doubts := src.Table.Doubts(h)
		if src.verified = len(doubts) == 0 && !src.similar; len(doubts) > 0 {
			notes = append(notes, fmt.Sprintf("%s: unverified: %s", src.Name, strings.Join(doubts, ", ")))
		}
		earlier, refused := src.Table.Builds(h)
		if earlier > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d of %d rows were measured with an earlier build of their kernels: they answer, and the answers say so", src.Name, earlier, len(src.Table.Rows)))
		}
		if refused > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d of %d rows need other kernels than these: they do not answer", src.Name, refused, len(src.Table.Rows)))
		}
	}
	narrow.rows = narrow.accepted()
	return &narrow, notes
}

// accepted returns the rows that the host accepts. Each build is judged once, because many rows
// share few builds.
func (s *Set) accepted() []indexedRow {
	type build struct {
		source int
		abi    ep.ABI
	}
	type judged struct{ accepted, certified bool }
	known := map[build]judged{}
	out := make([]indexedRow, 0, len(s.rows))
	sorted := true
	for _, r := range s.rows {
		src := &s.sources[r.source]
		b := build{r.source, src.Table.Header.Build(*r.row)}
		j, ok := known[b]
		if !ok {
			j = judged{s.host.Accepts(src.Table.Header, *r.row), s.host.Certifies(src.Table.Header, *r.row)}
			known[b] = j
		}
		if !src.refused && !j.accepted {
			continue
		}
		r.similar, r.earlier = src.similar, !j.certified
		// A receipt certifies a row and keeps the spelling of its config.
		if s.host.Current != nil {
			r.config = s.host.Current(r.config)
		}
		out, sorted = append(out, r), sorted && !r.earlier
	}
	if !sorted {
		slices.SortFunc(out, compareIndexed)
	}
	return out
}
