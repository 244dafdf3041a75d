package table

import (
	"cmp"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// Reason says where an answer comes from. A question asks which config to launch for a key and a number of tokens.
// For Uncovered and every reason listed after it, the answer is the default config.
type Reason string

const (
	Exact     Reason = "exact"     // a row has the question's key and tokens
	Fallback  Reason = "fallback"  // the row that answers differs in fallback fields
	Kept      Reason = "kept"      // no config is faster than the default config
	Halves    Reason = "halves"    // separate rows answer for dispatch and combine
	Uncovered Reason = "uncovered" // no row covers the question
	Refused   Reason = "refused"   // no table may be used on this host
	Illegal   Reason = "illegal"   // the row's config cannot run here
	Disagreed Reason = "disagreed" // the ranks have different tables
)

// Answer is the result of a look-up. A zero Config stands for the default config.
type Answer struct {
	Config   ep.Config `json:"config"`
	Reason   Reason    `json:"reason"`
	Differs  []string  `json:"differs"`  // fields in which the row differs
	Verified bool      `json:"verified"` // measured with this host's driver, CUDA and kernels
	Source   string    `json:"source"`   // name of the row's table, or ""
	Row      *Row      `json:"row"`      // nil if no row answered

	EarlierBuild bool `json:"earlier_build,omitempty"` // measured with an earlier kernel build
	OtherMachine bool `json:"other_machine,omitempty"` // see Host.OtherMachines
}

// match is a row that may answer a question. It may differ from the question only in its table's fallback fields.
type match struct {
	place    int32
	similar  bool
	step     int32                     // 1 + index of the last differing fallback field, 0 if none
	distance [fallbackFields + 2]int32 // by fallback field, then precision and dispatch dtype
}

const fallbackFields = 6

// compare returns how much a row differs from a question. ok is false if the row may not answer. Three fields have
// special rules:
//
//   - Routing class, if it is a fallback field: rows for all routings come first, then rows for even routings. Rows
//     for other classes answer only if the question's class is unknown.
//   - Precision: a question that accepts reduced precision also takes rows of full precision. The reverse does not
//     hold.
//   - Dispatch dtype: a combine takes rows with any dispatch dtype, because it always sends BF16.
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

// routingApart returns how much the class `have` of a row differs from the class `want` of a question. ok is false if
// the row may not answer.
func routingApart(have, want int) (apart int, ok bool) {
	all, even := ep.AllRoutings.Index(), ep.Even.Index()
	if have == all {
		return 1, true
	}
	return 2 + have, have == even || want == all
}

// matches returns the rows that may answer a question, the best row first. The first of these rules that tells two
// rows apart decides:
//
//  1. A row of this machine is better.
//  2. A row with a smaller step is better. The step is the position, in the list of fallback fields, of the last field
//     in which the row differs from the question. It is 0 if the row differs in none of them.
//  3. The rows are compared field by field, in the order of the list. In the first field in which one row is nearer to
//     the question than the other row, the nearer row is better.
//  4. A row of reduced precision is better, if the question accepts it.
//  5. For a combine, a row with a nearer dispatch dtype is better.
//  6. A row with a smaller key is better, then a row of this build, then a row of a later table.
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

// Lookup answers one question by comparing it with all rows. Resolved.Lookup is faster.
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

func (r *indexedRow) foreign() bool { return r.earlier || r.similar }

func (h Host) illegal(p ep.Problem, c ep.Config) bool {
	return h.Check != nil && !c.IsDefault() && h.Check(h.Machine, p, c) != nil
}

func (r *Row) covers(tokens int) bool { return r.Lo <= tokens && tokens <= r.Hi }

// noRowReason returns Refused if no table has rows with the ranks and dtypes of k, and Uncovered otherwise.
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

// LookupPair answers a question about a pair: a dispatch and a combine that are launched together. Without a row for
// the pair, it joins the configs of the dispatch and the combine, with the reason Halves. If Host.Check is nil or
// refuses the joined config, the answer is the default config.
//
// The arguments must come from Set.Resolve, for problems that differ only in their operation.
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
