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
	Halves    Reason = "halves"    // no row covers the pair, but rows cover both of its halves
	Uncovered Reason = "uncovered" // no row covers the question; the answer is the default
	Refused   Reason = "refused"   // no table may be used on this host; the answer is the default
	Illegal   Reason = "illegal"   // the config cannot run here; the answer is the default
	Disagreed Reason = "disagreed" // ranks hold different tables; the answer is the default
)

// Answer is the result of a look-up. The zero Config means the default.
type Answer struct {
	Config   ep.Config `json:"config"`
	Reason   Reason    `json:"reason"`
	Differs  []string  `json:"differs"`  // fields in which the row differs from the question
	Verified bool      `json:"verified"` // the row was measured under this driver, CUDA and ABI
	Source   string    `json:"source"`   // name of the row's table; "" if no row answered
	Row      *Row      `json:"row"`      // the row that answered, with its evidence; nil if no row answered

	EarlierBuild bool `json:"earlier_build,omitempty"` // the row was measured with an earlier build of its kernels
	OtherMachine bool `json:"other_machine,omitempty"` // the row was measured on another machine, see Host.OtherMachines
}

// match is a row that may answer a question.
type match struct {
	place    int32                     // index of the row in Set.rows
	similar  bool                      // the row was measured on another machine
	step     int32                     // 0 if exact, otherwise 1 + the fallback index of the last differing field
	distance [fallbackFields + 2]int32 // distance in each fallback field, then in precision, then in dispatch dtype
}

const fallbackFields = 6

// compare returns how far a row is from a question. ok is false if they differ in a field that must
// match. Three fields have special rules:
//
//   - Routing, if it is a fallback field: a row for all routings is nearest, a row for even
//     routings comes next. A row for an uneven class says nothing about other classes. So it
//     answers only a question with an unknown routing, and it comes last there.
//   - Precision: a question that accepts reduced precision also matches rows of full precision,
//     but rows of reduced precision are nearer. A question that needs full precision never
//     matches a row of reduced precision.
//   - Dispatch dtype: a combine matches rows of every dispatch dtype, because it always sends
//     BF16.
//
// Rows that differ only in precision or dispatch dtype are still exact answers.
func (r *indexedRow) compare(query *[KeyFields]int, fallback []int) (m match, ok bool) {
	m.similar = r.similar
	for field, have := range r.key {
		want := query[field]
		if have == want {
			continue
		}
		if field == precisionField && have < want {
			m.distance[fallbackFields] = 1
			continue
		}
		if field == dispatchField && r.row.Key.Op == ep.Combine && want >= 0 {
			m.distance[fallbackFields+1] = int32(max(have-want, want-have))
			continue
		}
		place := slices.Index(fallback, field)
		if place < 0 {
			return match{}, false
		}
		apart := max(have-want, want-have)
		if field == routingField {
			if apart, ok = routingApart(have, want); !ok {
				return match{}, false
			}
		}
		m.step = max(m.step, int32(place+1))
		m.distance[place] = int32(apart)
	}
	return m, true
}

// routingApart returns how far a row's class is from a question's, as indices in ep.Classes. ok is
// false if the row may not answer.
func routingApart(have, want int) (apart int, ok bool) {
	all, even := ep.AllRoutings.Index(), ep.Even.Index()
	if have == all {
		return 1, true
	}
	return 2 + have, have == even || want == all
}

// matches returns the rows that may answer a question, best first. The first of these rules that
// tells two rows apart decides:
//
//   - rows of this machine before rows of other machines
//   - exact rows before others
//   - rows whose last differing field is earlier in the fallback order
//   - rows that are nearer in the differing fields
//   - rows of reduced precision before rows of full precision
//   - for a combine: rows of the question's dispatch dtype before rows of other dtypes
//   - rows with a smaller key
//   - rows of this build of the kernels before rows of earlier builds
//   - rows of a table that lies above the other table in the Set
//
// No two rows are equal in this order, so every rank finds the same row.
func (s *Set) matches(query [KeyFields]int) []match {
	var out []match
	for i, r := range s.usable() {
		if m, ok := r.compare(&query, s.sources[r.source].fallback); ok {
			m.place = int32(i)
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b match) int {
		return cmp.Or(cmp.Compare(bit(a.similar), bit(b.similar)), cmp.Compare(a.step, b.step), slices.Compare(a.distance[:], b.distance[:]), cmp.Compare(a.place, b.place))
	})
	return out
}

func (s *Set) answer(m match, query [KeyFields]int) Answer {
	r := &s.rows[m.place]
	src := &s.sources[r.source]
	a := Answer{Config: r.config, Reason: Exact, Verified: src.verified && !r.earlier, Source: src.Name, Row: r.row, EarlierBuild: r.earlier, OtherMachine: r.similar}
	for field, want := range query {
		if field != precisionField && (field != dispatchField || r.row.Key.Op != ep.Combine) && r.key[field] != want {
			a.Differs = append(a.Differs, Fields()[field])
			a.Reason = Fallback
		}
	}
	if r.row.Default {
		a.Reason = Kept
	}
	return a
}

// Lookup answers one question by visiting all rows. A process that asks often calls
// Resolved.Lookup.
func (s *Set) Lookup(k Key, tokens int) Answer {
	query := k.Vector()
	for _, m := range s.matches(query) {
		r := &s.rows[m.place]
		if r.row.covers(tokens) && !(r.foreign() && s.host.illegal(k.Problem(tokens), r.config)) {
			return s.answer(m, query)
		}
	}
	return Answer{Reason: s.noRowReason(k)}
}

// foreign reports whether a row was measured with another build or on another machine.
func (r *indexedRow) foreign() bool { return r.earlier || r.similar }

// illegal reports whether a config cannot run on the host.
func (h Host) illegal(p ep.Problem, c ep.Config) bool {
	return h.Check != nil && !c.IsDefault() && h.Check(h.Machine, p, c) != nil
}

func (r *Row) covers(tokens int) bool { return r.Lo <= tokens && tokens <= r.Hi }

// noRowReason returns Refused if no table has the rank count and the dtypes, otherwise Uncovered.
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

// LookupPair answers a pair from its own row. Without one, it joins the configs of its dispatch and
// its combine, with the reason Halves. If dispatch or combine keeps the default, the pair keeps the
// default too.
//
// Without a Host.Check the pair keeps the default. If the Check refuses the joined config, the pair
// keeps the default with the reason Illegal.
//
// pair, dispatch and combine must be resolved from one problem, each with its own op. A join
// allocates.
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
		Verified: d.Verified && k.Verified, Source: d.Source, EarlierBuild: d.EarlierBuild || k.EarlierBuild, OtherMachine: d.OtherMachine || k.OtherMachine}
}

func union(a, b []string) []string {
	return slices.DeleteFunc(Fields(), func(f string) bool { return !slices.Contains(a, f) && !slices.Contains(b, f) })
}
