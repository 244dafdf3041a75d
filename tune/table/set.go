package table

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// Source is one table of a Set.
type Source struct {
	Name  string // path of the table's file
	Table *Table

	similar  bool  // see Host.OtherMachines
	fallback []int // fallback fields, as indices in Fields
	refused  bool
	verified bool // no doubts, see Table.Doubts
}

// Set combines several tables. If rows of several tables fit a question equally well, the table that comes last in
// Overlay's list answers.
//
// A Set never changes. To use new tables, make a new Set. All ranks must begin to use it with the same call, because
// ranks that launch different configs would hang.
type Set struct {
	sources  []Source     // in the order of Overlay's list
	rows     []indexedRow // sorted by compareIndexed
	warnings []error
	host     Host // set by For
}

// indexedRow is a table row, prepared for fast comparison.
type indexedRow struct {
	row     *Row
	config  ep.Config // spelled as the host's kernels spell it
	key     [KeyFields]int
	source  int
	earlier bool // measured with another build than the host's
	similar bool
}

// compareIndexed sorts rows by key. Among equal keys, rows of the host's kernels come first, then rows of later
// tables.
func compareIndexed(a, b indexedRow) int {
	return cmp.Or(slices.Compare(a.key[:], b.key[:]), cmp.Compare(bit(a.earlier), bit(b.earlier)), cmp.Compare(b.source, a.source), cmp.Compare(a.row.Lo, b.row.Lo))
}

// Overlay returns a Set of these tables.
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

// Sources lists the tables that the host may use.
func (s *Set) Sources() []Source {
	return slices.DeleteFunc(slices.Clone(s.sources), func(src Source) bool { return src.refused })
}

// Warnings returns an error for each file that Open could not read as a table.
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

// Host describes the process that asks for configs.
type Host struct {
	Machine ep.Machine
	// ABI is the build of the kernels in this process. If it is "", all answers are unverified.
	ABI ep.ABI
	// OnlyThisBuild excludes rows that were measured with another build of the kernels. Otherwise such rows may answer
	// if their kernels have the same revision. Answer.EarlierBuild is then set.
	OnlyThisBuild bool
	// Current renames a config of an earlier build to this build's names. nil means that no name changed.
	Current func(ep.Config) ep.Config
	// OtherMachines admits tables of similar machines (ep.Machine.Similar). Their rows answer only if no row of this
	// machine answers. Answer.OtherMachine is then set.
	OtherMachines bool
	// Hooks lists the caller's parameters that change the result, spelled as in Header.Hooks. A table without hooks
	// serves every caller.
	Hooks string
	// Check returns an error if a config cannot run here. nil means that every config can run.
	Check func(ep.Machine, ep.Problem, ep.Config) error
}

// Refusal returns why this host may not use a table for a problem, or nil if it may.
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

// AcceptsMachine reports whether tables of the other machine may answer on this host.
func (h Host) AcceptsMachine(other ep.Machine) bool {
	return h.OtherMachines && h.Machine.Similar(other)
}

// Certifies reports whether a row was measured with the kernels of this host. If the host's build is unknown, it
// returns true. If only the row's build is unknown, it returns false.
func (h Host) Certifies(head Header, r Row) bool {
	return h.ABI == "" || (head.ABI != "" || r.ABI != "") && h.ABI.Serves(head.Build(r))
}

// Accepts reports whether a row may answer on this host. This depends on the build of the row's kernels.
func (h Host) Accepts(head Header, r Row) bool {
	if h.OnlyThisBuild || h.ABI == "" || head.ABI == "" && r.ABI == "" {
		return h.Certifies(head, r)
	}
	return h.ABI.Accepts(head.Build(r))
}

// judge returns a function that reports whether the host accepts and certifies a row.
func (h Host) judge(head Header) func(*Row) (accepted, certified bool) {
	type judged struct{ accepted, certified bool }
	known := map[ep.ABI]judged{}
	return func(r *Row) (bool, bool) {
		build := head.Build(*r)
		j, ok := known[build]
		if !ok {
			j = judged{h.Accepts(head, *r), h.Certifies(head, *r)}
			known[build] = j
		}
		return j.accepted, j.certified
	}
}

// Builds counts the rows that were measured with another kernel build than the host's. `earlier` counts those that the
// host accepts, and `refused` those that it refuses.
func (t *Table) Builds(h Host) (earlier, refused int) {
	judge := h.judge(t.Header)
	for i := range t.Rows {
		switch accepted, certified := judge(&t.Rows[i]); {
		case !accepted:
			refused++
		case !certified:
			earlier++
		}
	}
	return earlier, refused
}

func (t *Table) hasRows(k Key) (ranks, dtypes bool) {
	for _, r := range t.Rows {
		ranks = ranks || r.Key.Ranks == k.Ranks
		dtypes = dtypes || r.Key.Combine == k.Combine && (r.Key.Dispatch == k.Dispatch || r.Key.Op == ep.Combine && k.Op == ep.Combine)
	}
	return ranks, dtypes
}

// Doubts returns the reasons to doubt a table that the host may use, such as another driver.
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

func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

// For returns a Set with only the rows that a host may use for a problem. The notes name refused and doubtful tables.
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

func (s *Set) accepted() []indexedRow {
	judges := make([]func(*Row) (bool, bool), len(s.sources))
	for i, src := range s.sources {
		judges[i] = s.host.judge(src.Table.Header)
	}
	out := make([]indexedRow, 0, len(s.rows))
	sorted := true
	for _, r := range s.rows {
		src := &s.sources[r.source]
		accepted, certified := judges[r.source](r.row)
		if !src.refused && !accepted {
			continue
		}
		r.similar, r.earlier = src.similar, !certified
		// Rename every config: even a row certified for this build may have the names of an earlier build.
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
