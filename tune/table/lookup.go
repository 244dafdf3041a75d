package table

import (
	"cmp"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// Reason says where the answer to a question comes from. A question asks which config to launch for
// a key (operation, shape, dtypes, precision, routing class) and a number of tokens. The routing
// class says how unevenly the tokens select experts. A config is a kernel with its launch
// parameters. Each rank is one GPU.
type Reason string

const (
	Exact     Reason = "exact"     // a row has the key of the question and covers the number of tokens
	Fallback  Reason = "fallback"  // a row differs from the question in fields in which its table allows this
	Kept      Reason = "kept"      // a row says that no config is faster than the default config
	Halves    Reason = "halves"    // no row covers the pair of dispatch and combine, but one covers the dispatch and one the combine
	Uncovered Reason = "uncovered" // no row covers the question; the answer is the default config
	Refused   Reason = "refused"   // no table may be used on this host; the answer is the default config
	Illegal   Reason = "illegal"   // the config of the row cannot run here; the answer is the default config
	Disagreed Reason = "disagreed" // the ranks have different tables; the answer is the default config
)

// Answer is the result of a look-up. A zero Config stands for the default config.
type Answer struct {
	Config   ep.Config `json:"config"`
	Reason   Reason    `json:"reason"`
	Differs  []string  `json:"differs"`  // fields in which the row differs from the question
	Verified bool      `json:"verified"` // the row was measured with the driver, the CUDA version and the kernels of this host
	Source   string    `json:"source"`   // name of the row's table; "" if no row answered
	Row      *Row      `json:"row"`      // the row that answered; nil if no row answered

	EarlierBuild bool `json:"earlier_build,omitempty"` // the row was measured with an earlier build of its kernels
	OtherMachine bool `json:"other_machine,omitempty"` // the row was measured on another machine, see Host.OtherMachines
}

// match is a row that may answer a question. A table lists the fields of the key in which its rows may differ from a
// question, in the order in which they may do so. These are the fallback fields.
type match struct {
	place    int32                     // index of the row in Set.rows
	similar  bool                      // the row was measured on another machine
	step     int32                     // 0 if no fallback field differs; otherwise 1 + the index of the last one that differs
	distance [fallbackFields + 2]int32 // how much the row differs from the question: in each fallback field, in precision, in dispatch dtype
}

// fallbackFields is the largest number of fallback fields.
const fallbackFields = 6

// compare returns how much a row differs from a question. ok is false if the row may not answer. A
// row may differ in fallback fields, and in two further fields. Three fields have special rules:
//
//   - Routing class, if it is a fallback field: a row for all routings differs least, and a row for
//     even routings comes next. A row for an uneven class says nothing about other classes. So it
//     answers only if the class in the question is unknown, and it comes last.
//   - Precision: a question that accepts reduced precision also takes rows of full precision, but
//     prefers rows of reduced precision. A question for full precision takes no row of reduced
//     precision.
//   - Dispatch dtype: a question about a combine takes rows with any dispatch dtype, because a
//     combine always sends BF16.
//
// A row that differs only in precision or dispatch dtype still gives the reason Exact.
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

// routingApart returns how much the routing class of a row (have) differs from that of a question
// (want). Both are indices in ep.Classes. ok is false if the row may not answer.
func routingApart(have, want int) (apart int, ok bool) {
	all, even := ep.AllRoutings.Index(), ep.Even.Index()
	if have == all {
		return 1, true
	}
	return 2 + have, have == even || want == all
}

// matches returns the rows that may answer a question, the best row first. To compare two rows, it
// takes the first of these rules by which one of them is better:
//
//  1. A row of this machine is better than a row of another machine.
//  2. A row without a difference in a fallback field is better than a row with one.
//  3. A row is better if its last fallback field with a difference is earlier in the list of
//     fallback fields.
//  4. A row is better if it differs less in the first fallback field in which the two rows differ
//     by different amounts.
//  5. A row of reduced precision is better, if the question accepts it.
//  6. For a combine, a row with a nearer dispatch dtype is better.
//  7. A row with a smaller key is better.
//  8. A row that was measured with this build of the kernels is better than one of an earlier build.
//  9. A row of a table that comes later in the Set is better.
//
// No two rows are equal by these rules, so every rank finds the same row.
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

// answer returns the answer that a row gives to a question.
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

// Lookup answers one question. It compares the question with all rows, which takes long. A process
// that asks often should call Resolved.Lookup.
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

// noRowReason returns the reason of an answer for which there is no row. It is Refused if no table
// has rows with the number of ranks and the dtypes of the key, and Uncovered otherwise.
func (s *Set) noRowReason(k Key) Reason {
	for _, src := range s.Sources() {
		if ranks, dtypes := src.Table.hasRows(k); ranks && dtypes {
			return Uncovered
		}
	}
	return Refused
}

// Lookup answers one question from one table.
func (t *Table) Lookup(k Key, tokens int) Answer {
	return Overlay(Source{Table: t}).Lookup(k, tokens)
}

// LookupPair answers a question about a pair: a dispatch and a combine that are launched together.
// If there is a row for the pair, this row answers. Otherwise LookupPair looks up the dispatch and
// the combine by themselves, and joins their configs. The reason is then Halves.
//
// In three cases there is no joined config, and the answer is the default config:
//
//   - The answer for the dispatch or for the combine is the default config.
//   - Host.Check is nil, so that nothing tells whether the joined config can run.
//   - Host.Check refuses the joined config. Then the reason is Illegal.
//
// pair, dispatch and combine must be made by Set.Resolve from problems that differ only in their
// operation. LookupPair allocates memory if it joins two configs.
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

// union returns the fields that are in a or in b.
func union(a, b []string) []string {
	return slices.DeleteFunc(Fields(), func(f string) bool { return !slices.Contains(a, f) && !slices.Contains(b, f) })
}
