// Package curate maintains tuned tables: Diff compares two tables, Merge merges two, and Lint finds
// rows that their evidence does not support.
package curate

import (
	"slices"

	"github.com/epbench/epbench/tune/table"
)

// segment is an interval of token counts of one key. Each of the two tables has one row or none there.
type segment struct {
	key  table.Key
	lo   int
	hi   int        // inclusive
	a, b *table.Row // nil for none
}

type group struct {
	key  table.Key
	rows [2][]*table.Row
}

// groups returns the rows of two tables, grouped by key.
func groups(a, b *table.Table) []group {
	byKey := map[table.Key]*group{}
	for side, t := range []*table.Table{a, b} {
		for i := range t.Rows {
			k := t.Rows[i].Key
			if byKey[k] == nil {
				byKey[k] = &group{key: k}
			}
			byKey[k].rows[side] = append(byKey[k].rows[side], &t.Rows[i])
		}
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

// cut returns the segments of a key. A segment begins where a row begins, after a row ends, and at each of `starts`.
func (g group) cut(starts ...int) []segment {
	for _, r := range slices.Concat(g.rows[0], g.rows[1]) {
		starts = append(starts, r.Lo, r.Hi+1)
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	var out []segment
	for i := range len(starts) - 1 {
		s := segment{key: g.key, lo: starts[i], hi: starts[i+1] - 1}
		s.a, s.b = covering(g.rows[0], s.lo), covering(g.rows[1], s.lo)
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

func sameConfig(a, b *table.Row) bool {
	return a.Config.Key() == b.Config.Key() && a.Default == b.Default
}
