package table

import (
	"cmp"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// Reason says how an answer came about.
type Reason string

const (
	Exact     Reason = "exact"     // a row matches every field and covers the tokens
	Fallback  Reason = "fallback"  // a row matches but for fields that its table lets differ
	Kept      Reason = "kept"      // a row says that the default is at least as fast
	Halves    Reason = "halves"    // no row covers the pair, and rows cover both of its halves, see LookupPair
	Uncovered Reason = "uncovered" // no row covers this: default
	Refused   Reason = "refused"   // no table may be used here: default
	Illegal   Reason = "illegal"   // the row's config, or the join of a pair's halves, cannot run here: default
	Disagreed Reason = "disagreed" // ranks hold different tables: default
)

// Answer is what a look-up says. A zero Config means the default config.
type Answer struct {
	Config   ep.Config `json:"config"`
	Reason   Reason    `json:"reason"`
	Differs  []string  `json:"differs"`  // fields in which the row differs from the question
	Verified bool      `json:"verified"` // the row was measured under this driver, CUDA and ABI
	Source   string    `json:"source"`   // name of the row's table, empty without a row
	Row      *Row      `json:"row"`      // the row that answered, with its evidence; nil without one

	OtherKernels bool `json:"other_kernels,omitempty"` // the row is of another build of its kernels
	OtherMachine bool `json:"other_machine,omitempty"` // the row was measured on another machine, see Host.OtherMachines
}

// match is a row that may answer a question, and how far from it the row is.
type match struct {
	place    int32                     // in Set.rows
	similar  bool                      // of another machine
	other    bool                      // of another build of its kernels
	step     int32                     // 0 exact, else 1 + the last field of the fallback order that differs
	distance [fallbackFields + 1]int32 // by how much each differs, in fallback order; last the precision
}

// fallbackFields is the number of fields in FallbackFields.
const fallbackFields = 6

// compare places a row under a question. ok is false when a field differs that must
// match. Routing may differ only where the row is for all routings: a row tuned for
// another class is evidence of nothing. A question that accepts reduced precision
// also takes a row of full precision, behind those of reduced; such a row is still
// an exact answer. A question of full precision never takes a row of reduced.
func (r *indexedRow) compare(query *[KeyFields]int, fallback []int) (m match, ok bool) {
	m.similar, m.other = r.similar, r.other
	for field, have := range r.key {
		want := query[field]
		if have == want {
			continue
		}
		if field == precisionField && have < want {
			m.distance[fallbackFields] = 1
			continue
		}
		place := slices.Index(fallback, field)
		if place < 0 || field == routingField && r.row.Key.Routing != ep.AllRoutings {
			return match{}, false
		}
		m.step = max(m.step, int32(place+1))
		m.distance[place] = int32(max(have-want, want-have))
	}
	return m, true
}

// matches lists the rows that may answer a question, best first: those of this machine,
// then those of this build of the kernels, then those whose differing fields come first
// in the fallback order, then the nearest in those fields, then full precision behind
// reduced, then the smaller key, then the upper source. No two rows are equal in this
// order, so that every rank and every exported look-up finds the same row.
func (s *Set) matches(query [KeyFields]int) []match {
	var out []match
	for i, r := range s.usable() {
		if m, ok := r.compare(&query, s.sources[r.source].fallback); ok {
			m.place = int32(i)
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b match) int {
		return cmp.Or(cmp.Compare(bit(a.similar), bit(b.similar)), cmp.Compare(bit(a.other), bit(b.other)), cmp.Compare(a.step, b.step), slices.Compare(a.distance[:], b.distance[:]), cmp.Compare(a.place, b.place))
	})
	return out
}

// answer is what a row says to a question.
func (s *Set) answer(m match, query [KeyFields]int) Answer {
	r := &s.rows[m.place]
	src := &s.sources[r.source]
	a := Answer{Config: r.row.Config, Reason: Exact, Verified: src.verified && !r.other, Source: src.Name, Row: r.row, OtherKernels: r.other, OtherMachine: r.similar}
	for field, want := range query {
		if field != precisionField && r.key[field] != want {
			a.Differs = append(a.Differs, Fields()[field])
			a.Reason = Fallback
		}
	}
	if r.row.Default {
		a.Reason = Kept
	}
	return a
}

// Lookup answers one question without preparation, for tools: it walks all rows. A
// process that asks often resolves once and uses Resolved.Lookup.
func (s *Set) Lookup(k Key, tokens int) Answer {
	query := k.Vector()
	for _, m := range s.matches(query) {
		if r := s.rows[m.place].row; r.covers(tokens) {
			return s.answer(m, query)
		}
	}
	return Answer{Reason: s.noRowReason(k)}
}

func (r *Row) covers(tokens int) bool { return r.Lo <= tokens && tokens <= r.Hi }

// silence is the reason of an answer without a row: Refused when no table has a row
// for the rank count and the dtypes, which no answer crosses.
func (s *Set) noRowReason(k Key) Reason {
	for _, src := range s.Sources() {
		if ranks, dtypes := src.Table.hasRows(k); ranks && dtypes {
			return Uncovered
		}
	}
	return Refused
}

// Lookup answers from one table, as Set.Lookup does.
func (t *Table) Lookup(k Key, tokens int) Answer {
	return Overlay(Source{Table: t}).Lookup(k, tokens)
}

// LookupPair answers a pair from its own row. Where no row covers it but rows
// cover its dispatch and its combine, the answer joins their configs, and the
// reason is Halves: each was tuned alone, and nobody timed them together. A half
// that keeps the default has no config to join, so that the pair keeps it too.
//
// Only Host.Check knows whether a combine can follow a dispatch: some work on memory that
// others do not leave. Without it, and where it refuses the join, the pair keeps the
// default; the latter's reason is Illegal.
//
// The three are the same problem resolved for its three ops. A join allocates: a
// process that asks often keeps what it is told.
func LookupPair(pair, dispatch, combine *Resolved, tokens int, c ep.Class) Answer {
	own := *pair.Lookup(tokens, c)
	d, k := dispatch.Lookup(tokens, c), combine.Lookup(tokens, c)
	if own.Row != nil || d.Config.IsDefault() || k.Config.IsDefault() {
		return own
	}
	join := ep.Join(d.Config, k.Config)
	if pair.host.Check == nil {
		return own
	}
	if !pair.legal(KeyOf(pair.problem, c), tokens, join) {
		own.Reason = Illegal
		return own
	}
	return Answer{Config: join, Reason: Halves, Differs: union(d.Differs, k.Differs),
		Verified: d.Verified && k.Verified, Source: d.Source, OtherKernels: d.OtherKernels || k.OtherKernels, OtherMachine: d.OtherMachine || k.OtherMachine}
}

// union lists the fields that are in a or b, in the order of Fields.
func union(a, b []string) []string {
	return slices.DeleteFunc(Fields(), func(f string) bool { return !slices.Contains(a, f) && !slices.Contains(b, f) })
}
