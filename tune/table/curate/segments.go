// Package curate keeps tuned tables: what two of them disagree on, how one is
// merged into another, and which rows do not hold what they claim.
package curate

import (
	"slices"

	"github.com/epbench/epbench/tune/table"
)

// segment is a stretch of token counts of one key over which neither of two
// tables changes its row. A nil row is a table that says nothing there.
type segment struct {
	key  table.Key
	lo   int
	hi   int // inclusive
	a, b *table.Row
}

// group is the rows of two tables for one key.
type group struct {
	key  table.Key
	a, b []*table.Row
}

// groups lists the keys of two tables in canonical order.
func groups(a, b *table.Table) []group {
	byKey := map[table.Key]*group{}
	at := func(k table.Key) *group {
		if byKey[k] == nil {
			byKey[k] = &group{key: k}
		}
		return byKey[k]
	}
	for i := range a.Rows {
		g := at(a.Rows[i].Key)
		g.a = append(g.a, &a.Rows[i])
	}
	for i := range b.Rows {
		g := at(b.Rows[i].Key)
		g.b = append(g.b, &b.Rows[i])
	}
	out := make([]group, 0, len(byKey))
	for _, g := range byKey {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(x, y group) int {
		vx, vy := x.key.Vector(), y.key.Vector()
		return slices.Compare(vx[:], vy[:])
	})
	return out
}

// cut lists the segments of a key, cut also where one of starts begins one.
func (g group) cut(starts ...int) []segment {
	for _, rows := range [][]*table.Row{g.a, g.b} {
		for _, r := range rows {
			starts = append(starts, r.Lo, r.Hi+1)
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	var out []segment
	for i := range len(starts) - 1 {
		s := segment{key: g.key, lo: starts[i], hi: starts[i+1] - 1}
		s.a, s.b = covering(g.a, s.lo), covering(g.b, s.lo)
		if s.a != nil || s.b != nil {
			out = append(out, s)
		}
	}
	return out
}

func covering(rows []*table.Row, tokens int) *table.Row {
	for _, r := range rows {
		if r.Lo <= tokens && tokens <= r.Hi {
			return r
		}
	}
	return nil
}

// sameChoice reports whether two rows tell a runtime to do the same.
func sameChoice(a, b *table.Row) bool {
	return a.Config.Key() == b.Config.Key() && a.Default == b.Default
}
