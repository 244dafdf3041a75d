// Package curate keeps tuned tables: what two of them disagree on, how one is
// merged into another, and which rows do not hold what they claim.
package curate

import (
	"slices"

	"github.com/epbench/epbench/tune/plan"
)

// segment is a stretch of token counts of one key over which neither of two
// tables changes its row. A nil row is a table that says nothing there.
type segment struct {
	key  plan.Key
	lo   int
	hi   int // inclusive
	a, b *plan.Row
}

// segments cuts the rows of two tables against each other, in canonical order.
func segments(a, b *plan.Table) []segment {
	type group struct{ a, b []*plan.Row }
	groups := map[plan.Key]*group{}
	var keys []plan.Key
	at := func(k plan.Key) *group {
		if groups[k] == nil {
			groups[k] = &group{}
			keys = append(keys, k)
		}
		return groups[k]
	}
	for i := range a.Rows {
		g := at(a.Rows[i].Key)
		g.a = append(g.a, &a.Rows[i])
	}
	for i := range b.Rows {
		g := at(b.Rows[i].Key)
		g.b = append(g.b, &b.Rows[i])
	}
	slices.SortFunc(keys, func(x, y plan.Key) int {
		vx, vy := x.Vector(), y.Vector()
		return slices.Compare(vx[:], vy[:])
	})
	var out []segment
	for _, k := range keys {
		out = append(out, cut(k, groups[k].a, groups[k].b)...)
	}
	return out
}

// cut does segments for one key.
func cut(k plan.Key, a, b []*plan.Row) []segment {
	var starts []int
	for _, rows := range [][]*plan.Row{a, b} {
		for _, r := range rows {
			starts = append(starts, r.Lo, r.Hi+1)
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	var out []segment
	for i := range len(starts) - 1 {
		s := segment{key: k, lo: starts[i], hi: starts[i+1] - 1}
		s.a, s.b = covering(a, s.lo), covering(b, s.lo)
		if s.a != nil || s.b != nil {
			out = append(out, s)
		}
	}
	return out
}

func covering(rows []*plan.Row, tokens int) *plan.Row {
	for _, r := range rows {
		if r.Lo <= tokens && tokens <= r.Hi {
			return r
		}
	}
	return nil
}

// sameChoice reports whether two rows tell a runtime to do the same.
func sameChoice(a, b *plan.Row) bool {
	return a.Config.Key() == b.Config.Key() && a.Default == b.Default
}
