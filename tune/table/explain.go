package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// Explanation says how one answer came about.
type Explanation struct {
	Key    Key
	Tokens int
	Answer Answer
	Rows   []ExplainedRow // every row that could answer the key, best first
}

// ExplainedRow is a row that could answer, and why it does or does not.
type ExplainedRow struct {
	Source  string   // name of its table's source
	Row     *Row     // with its evidence
	Differs []string // fields in which it differs from the key
	Note    string   // "answers", or why it does not
}

// Explain tells how Lookup comes to its answer. Rows that differ in a field
// that must match are left out; Nearest names those.
func (s *Set) Explain(k Key, tokens int) Explanation {
	x := Explanation{Key: k, Tokens: tokens, Answer: s.Lookup(k, tokens)}
	query := k.Vector()
	won := ""
	for _, e := range s.matches(query) {
		a := s.answer(e, query)
		r := ExplainedRow{Source: a.Source, Row: a.Row, Differs: a.Differs}
		switch {
		case tokens < a.Row.Lo || tokens > a.Row.Hi:
			r.Note = fmt.Sprintf("covers tokens %d to %d only", a.Row.Lo, a.Row.Hi)
		case won != "":
			r.Note = "behind " + won
		default:
			r.Note = "answers"
			won = rowName(a)
		}
		x.Rows = append(x.Rows, r)
	}
	return x
}

func rowName(a Answer) string {
	if len(a.Differs) == 0 {
		return "an exact row"
	}
	return "a row that differs in " + strings.Join(a.Differs, ", ")
}

// Nearest says why no row answers a key at a token count: what the closest row
// differs in or covers. Of rows equally close it is the one whose differences
// stand later in Fields: another op is further than other results. It is ""
// when there are no rows.
func (s *Set) Nearest(k Key, tokens int) string {
	best, least, latest := "", 0, 0
	query := k.Vector()
	for i := range s.sources {
		src := &s.sources[i]
		for j, v := range src.vectors {
			text, fields, first := difference(src, j, v, query)
			if row := src.Table.Rows[j]; fields == 0 {
				text = fmt.Sprintf("rows for this key cover %s tokens, not %d", s.coverage(row.Key), tokens)
			}
			if best == "" || fields < least || fields == least && first > latest {
				best, least, latest = text, fields, first
			}
		}
	}
	return best
}

// difference describes the fields that keep a row from matching, counts them
// and gives the place of the first.
func difference(src *Source, row int, have, want [KeyFields]int) (text string, fields, first int) {
	var parts []string
	values := src.Table.Rows[row].Key.Words()
	for f := range have {
		if have[f] == want[f] || slices.Contains(src.fallback, f) && (f != routingField || src.Table.Rows[row].Key.Routing == ep.AllRoutings) {
			continue
		}
		if f == precisionField && have[f] < want[f] {
			continue
		}
		if parts == nil {
			first = f
		}
		parts = append(parts, Fields()[f]+"="+values[f])
	}
	return "the nearest row has " + strings.Join(parts, " "), len(parts), first
}

// coverage is the union of the token intervals of a key's rows, as text.
func (s *Set) coverage(k Key) string {
	var spans [][2]int
	for _, src := range s.sources {
		for _, r := range src.Table.Rows {
			if r.Key == k {
				spans = append(spans, [2]int{r.Lo, r.Hi})
			}
		}
	}
	slices.SortFunc(spans, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	var out []string
	for i := 0; i < len(spans); {
		lo, hi := spans[i][0], spans[i][1]
		for i++; i < len(spans) && spans[i][0] <= hi+1; i++ {
			hi = max(hi, spans[i][1])
		}
		out = append(out, fmt.Sprintf("%d to %d", lo, hi))
	}
	return strings.Join(out, ", ")
}
