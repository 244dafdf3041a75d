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
	Fallback  Reason = "fallback"  // a row differs only in fallback fields of its table
	Kept      Reason = "kept"      // a row says that the default is at least as fast
	Halves    Reason = "halves"    // no row covers the pair, but rows cover both of its halves, see LookupPair
	Uncovered Reason = "uncovered" // no row covers the question: default
	Refused   Reason = "refused"   // no table may be used on this host: default
	Illegal   Reason = "illegal"   // the row's config, or the join of a pair's halves, cannot run here: default
	Disagreed Reason = "disagreed" // ranks hold different tables: default
)

// Answer is the result of a look-up. The zero Config means the default.
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

// match is a row that may answer a question, with its distance from the question.
type match struct {
	place    int32                     // in Set.rows
	similar  bool                      // of another machine
	other    bool                      // of another build of its kernels
	step     int32                     // 0 if exact, otherwise 1 + the last field of the fallback order that differs
	distance [fallbackFields + 1]int32 // by how much each field differs, in fallback order; last the precision
}

// fallbackFields is the number of fields in FallbackFields.
const fallbackFields = 6

// compare returns how far a row is from a question. ok is false if they differ in a field
// that must match. Routing may differ only if the row is for all routings, since a row tuned
// for another class is no evidence. A question that accepts reduced precision also matches a
// row of full precision, if no row of reduced precision answers; such a row is still an
// exact answer. A question of full precision never matches a row of reduced.
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

// matches lists the rows that may answer a question, best first. The order is: rows of this
// machine before others, then rows of this build of the kernels, then rows whose differing
// fields are earlier in the fallback order, then rows nearer in those fields, then reduced
// before full precision, then the smaller key, then the upper source. No two rows are equal
// in this order, so that every rank and every exported look-up finds the same row.
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

// answer returns the answer that a row gives to a question.
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

// Lookup answers one question without preparation, for tools: it visits all rows. A process
// that asks often resolves once and calls Resolved.Lookup.
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

// noRowReason returns the reason of an answer without a row: Refused if no table has a row
// with the rank count and the dtypes, which must match, otherwise Uncovered.
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

// LookupPair answers a pair from its own row. If no row covers the pair but rows cover its
// dispatch and its combine, the answer joins their configs with the reason Halves: each was
// tuned alone, and they were never timed together. If dispatch or combine keeps the
// default, the pair keeps the default too.
//
// Only Host.Check knows whether a combine can follow a dispatch. Without a Check the pair
// keeps the default. If the Check refuses the join, the pair keeps the default with the
// reason Illegal.
//
// The three arguments are one problem, resolved for its three ops. A join allocates: a
// process that asks often should keep the answer.
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

// union returns the fields that are in a or b, in the order of Fields.
func union(a, b []string) []string {
	return slices.DeleteFunc(Fields(), func(f string) bool { return !slices.Contains(a, f) && !slices.Contains(b, f) })
}
