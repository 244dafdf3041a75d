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
	Fallback  Reason = "fallback"  // a row matches but for fields that the table lets differ
	Kept      Reason = "kept"      // a row says that the default is at least as good
	Uncovered Reason = "uncovered" // no row covers this: default
	Refused   Reason = "refused"   // no table may be used here: default
	Illegal   Reason = "illegal"   // the row's config cannot run here: default
	Disagreed Reason = "disagreed" // ranks hold different tables: default
)

// Answer is what a lookup says. A zero Config means the library's default.
type Answer struct {
	Config   ep.Config `json:"config"`
	Reason   Reason    `json:"reason"`
	Differs  []string  `json:"differs"`  // fields given up to reach the row
	Verified bool      `json:"verified"` // the table was measured under this driver, CUDA and ABI
	Source   string    `json:"source"`   // name of the table's source, empty without a row
	Row      *Row      `json:"row"`      // the row that answered, with its evidence; nil without one
}

// entry is a row that may answer a query, and how far from it it is.
type entry struct {
	source, row int32
	step        int32                     // 0 exact, else 1 + the last field of the fallback order that differs
	distance    [fallbackFields + 1]int32 // by how much it differs, in fallback order, then in precision
	place       int32                     // in the order that breaks ties, see Set.order
}

// fallbackFields is the number of fields in FallbackFields.
const fallbackFields = 6

// match places a row key under a query. ok is false when a field differs that
// the table does not give up. Routing is given up only for the minimax row: a
// row tuned for another known skew is evidence of nothing. Who accepts any
// results also takes a row for the same results, after one of the kind asked
// for, and has given up nothing by that; never the other way round.
func match(row, query *[KeyFields]int, fallback []int, minimax int) (e entry, ok bool) {
	for field, have := range row {
		want := query[field]
		if have == want {
			continue
		}
		if field == precisionField && have < want {
			e.distance[fallbackFields] = 1
			continue
		}
		place := slices.Index(fallback, field)
		if place < 0 || field == routingField && have != minimax {
			return entry{}, false
		}
		e.step = max(e.step, int32(place+1))
		e.distance[place] = int32(max(have-want, want-have))
	}
	return e, true
}

const (
	routingField   = 11
	precisionField = 12
)

// matches lists the rows that may answer a key, best first: fewest fields given
// up in the declared order, then nearest in them and in results, then the smaller key, then
// the upper source. The order is total, so every rank and every exported
// look-up finds the same row.
func (s *Set) matches(query [KeyFields]int) []entry {
	var out []entry
	minimax := slices.Index(ep.Classes(), ep.AllRoutings)
	for i := range s.sources {
		src := &s.sources[i]
		for j := range src.vectors {
			if e, ok := match(&src.vectors[j], &query, src.fallback, minimax); ok {
				e.source, e.row, e.place = int32(i), int32(j), src.places[j]
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.step, b.step), slices.Compare(a.distance[:], b.distance[:]), cmp.Compare(a.place, b.place))
	})
	return out
}

// order gives every row its place in the order that breaks ties: by key, then
// the upper source first, then by tokens.
func (s *Set) order() {
	type at struct{ source, row int }
	var all []at
	for i := range s.sources {
		src := &s.sources[i]
		src.places = make([]int32, len(src.vectors))
		for j := range src.vectors {
			all = append(all, at{i, j})
		}
	}
	slices.SortFunc(all, func(a, b at) int {
		va, vb := &s.sources[a.source].vectors[a.row], &s.sources[b.source].vectors[b.row]
		return cmp.Or(slices.Compare(va[:], vb[:]), cmp.Compare(b.source, a.source), cmp.Compare(a.row, b.row))
	})
	for place, x := range all {
		s.sources[x.source].places[x.row] = int32(place)
	}
}

// answer is what the row of an entry says under a query.
func (s *Set) answer(e entry, query [KeyFields]int) Answer {
	src := &s.sources[e.source]
	row := &src.Table.Rows[e.row]
	a := Answer{Config: row.Config, Reason: Exact, Verified: src.verified, Source: src.Name, Row: row}
	for field, want := range query {
		if field != precisionField && src.vectors[e.row][field] != want {
			a.Differs = append(a.Differs, Fields()[field])
			a.Reason = Fallback
		}
	}
	if row.Default {
		a.Reason = Kept
	}
	return a
}
