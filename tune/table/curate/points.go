package curate

import (
	"slices"
	"sort"

	"github.com/epbench/epbench/tune/table"
)

// point is a measured token count with the row that answers there after a merge.
type point struct {
	tokens int
	row    *table.Row
}

// points returns the token counts at which one or both of two merged tables were measured. Between them, the merged table
// takes the row of the nearer count.
func (g group) points(rule Rule) []point {
	var out []point
	for _, s := range g.cut() {
		for _, n := range s.measured() {
			if there := g.measuredThere(s, n); there.a != nil || there.b != nil {
				out = append(out, point{n, there.choose(n, rule)})
			}
		}
	}
	return out
}

// measuredThere returns a segment with only the rows that were measured at a token count. It also drops an outranked
// row (see outranked), unless both rows are outranked.
func (g group) measuredThere(s segment, tokens int) segment {
	a, b := measuredAt(s.a, tokens), measuredAt(s.b, tokens)
	lowA, lowB := g.outranked(0, s.a, s.b, tokens), g.outranked(1, s.b, s.a, tokens)
	if !a || lowA && !lowB {
		s.a = nil
	}
	if !b || lowB && !lowA {
		s.b = nil
	}
	return s
}

// outranked reports whether r gives way to the other table. It does if r's table has no search at this token count (see
// Evidence.Between), and the other table has a nearer search than r's table, either below or above this count.
func (g group) outranked(side int, r, other *table.Row, tokens int) bool {
	if r == nil || other == nil || !slices.Contains(r.Evidence.Between, tokens) || len(r.Evidence.Between) == len(r.Evidence.Tokens) {
		return false
	}
	own := searched(g.rows[side])
	after, _ := slices.BinarySearch(own, tokens)
	return slices.ContainsFunc(searched(g.rows[1-side]), func(n int) bool {
		return n != tokens && (after == 0 || n > own[after-1]) && (after == len(own) || n < own[after])
	})
}

func searched(rows []*table.Row) []int {
	var out []int
	for _, r := range rows {
		for _, n := range r.Evidence.Tokens {
			if !slices.Contains(r.Evidence.Between, n) {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (s segment) measured() []int {
	var out []int
	for _, r := range []*table.Row{s.a, s.b} {
		if r != nil {
			out = append(out, r.Evidence.Tokens...)
		}
	}
	out = slices.DeleteFunc(out, func(n int) bool { return n < s.lo || n > s.hi })
	slices.Sort(out)
	return slices.Compact(out)
}

func measuredAt(r *table.Row, tokens int) bool {
	return r != nil && slices.Contains(r.Evidence.Tokens, tokens)
}

// ends returns the token counts at which another point may become the nearest.
func ends(points []point) []int {
	var out []int
	for i, p := range points {
		out = append(out, p.tokens)
		if i > 0 {
			out = append(out, table.Midpoint(points[i-1].tokens, p.tokens)+1)
		}
	}
	return out
}

// winner returns the row that answers in a segment, and the row's point, if any.
func (s segment) winner(points []point, rule Rule) (row *table.Row, from *point) {
	if s.a != nil && s.b != nil && rule.builds.Serves(s.a.ABI) != rule.builds.Serves(s.b.ABI) {
		return s.choose(s.lo, rule), nil
	}
	next := sort.Search(len(points), func(i int) bool { return points[i].tokens > s.lo })
	switch {
	case len(points) == 0 && s.a != nil:
		return s.a, nil
	case len(points) == 0:
		return s.b, nil
	case next == 0:
		return points[0].row, &points[0]
	case next == len(points):
		return points[next-1].row, &points[next-1]
	}
	near, far := &points[next-1], &points[next]
	if s.lo > table.Midpoint(near.tokens, far.tokens) {
		near, far = far, near
	}
	if !s.has(near.row) && s.has(far.row) {
		near = far
	}
	return near.row, near
}

func (s segment) has(r *table.Row) bool {
	return s.a != nil && sameRow(s.a, r) || s.b != nil && sameRow(s.b, r)
}
