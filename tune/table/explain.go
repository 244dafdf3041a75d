package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// Explanation is an answer with every row that was considered.
type Explanation struct {
	Key    Key
	Tokens int
	Answer Answer
	Rows   []ExplainedRow
}

// ExplainedRow is a row that may answer, and why it does or does not.
type ExplainedRow struct {
	Source  string // the table's name
	Row     *Row
	Differs []string // fields in which the row differs
	Note    string   // "answers", or why the row does not
}

// Explain returns Lookup's answer and every row that may answer the key.
func (s *Set) Explain(k Key, tokens int) Explanation {
	x := Explanation{Key: k, Tokens: tokens, Answer: s.Lookup(k, tokens)}
	query := k.Vector()
	for _, m := range s.matches(query) {
		a := s.answer(m, query)
		r := ExplainedRow{Source: a.Source, Row: a.Row, Differs: a.Differs}
		switch {
		case !a.Row.covers(tokens):
			r.Note = fmt.Sprintf("covers tokens %d to %d only", a.Row.Lo, a.Row.Hi)
		case a.Row == x.Answer.Row:
			r.Note = "answers"
		case s.rows[m.place].foreign() && s.host.illegal(k.Problem(tokens), a.Config):
			r.Note = "its config cannot run here"
		case a.OtherMachine && !x.Answer.OtherMachine:
			r.Note = "a row of this machine comes first"
		case a.EarlierBuild && !x.Answer.EarlierBuild && slices.Equal(a.Differs, x.Answer.Differs):
			r.Note = "a row of this build comes first"
		case len(x.Answer.Differs) == 0:
			r.Note = "an exact row comes first"
		default:
			r.Note = "a row that differs only in " + strings.Join(x.Answer.Differs, ", ") + " comes first"
		}
		x.Rows = append(x.Rows, r)
	}
	return x
}

// Nearest describes the row that comes closest to answering. If no row can be used, it returns "".
func (s *Set) Nearest(k Key, tokens int) string {
	query := k.Vector()
	var best *indexedRow
	var least []int
	for _, r := range s.usable() {
		blocking := s.blocking(r, query)
		if best == nil || len(blocking) < len(least) || len(blocking) == len(least) && slices.Compare(blocking, least) > 0 {
			best, least = r, blocking
		}
	}
	if best == nil {
		return ""
	}
	if len(least) == 0 {
		return fmt.Sprintf("rows for this key cover %s tokens, not %d", s.coverage(best.row.Key), tokens)
	}
	var parts []string
	for _, f := range least {
		parts = append(parts, Fields()[f]+"="+best.row.Key.Words()[f])
	}
	return "the nearest row has " + strings.Join(parts, " ")
}

// blocking returns the indices of the fields that keep a row from answering.
func (s *Set) blocking(r *indexedRow, query [KeyFields]int) []int {
	var out []int
	fallback := s.sources[r.source].fallback
	for f, have := range r.key {
		mayDiffer := slices.Contains(fallback, f)
		switch f {
		case routingField:
			_, ok := routingApart(have, query[f])
			mayDiffer = mayDiffer && ok
		case precisionField:
			mayDiffer = have < query[f]
		case dispatchField:
			mayDiffer = r.row.Key.Op == ep.Combine && query[opField] == r.key[opField]
		}
		if have != query[f] && !mayDiffer {
			out = append(out, f)
		}
	}
	return out
}

func (s *Set) coverage(k Key) string {
	var spans [][2]int
	for _, r := range s.usable() {
		if r.row.Key == k {
			spans = append(spans, [2]int{r.row.Lo, r.row.Hi})
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
