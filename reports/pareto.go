package reports

import (
	"cmp"
	"math"
	"slices"
)

// Pareto holds the trade-off between time and number of SMs in one case.
type Pareto struct {
	Case  *Case
	All   []*Entry // with times and known SMs
	Front []*Entry // faster than all entries with fewer SMs; sorted by SMs
	Knee  int      // index into Front, or -1
}

// ParetoOf computes the front of a case. The front is empty if no number of SMs is known.
func ParetoOf(c *Case) Pareto {
	p := Pareto{Case: c, Knee: -1}
	for _, e := range c.Entries {
		if e.Timed() && e.Cost.SMs > 0 {
			p.All = append(p.All, e)
		}
	}
	sorted := slices.Clone(p.All)
	slices.SortStableFunc(sorted, func(a, b *Entry) int {
		return cmp.Or(cmp.Compare(a.Cost.SMs, b.Cost.SMs), cmp.Compare(a.Level, b.Level), cmp.Compare(a.Key, b.Key))
	})
	fastest := math.Inf(1)
	for _, e := range sorted {
		if e.Level < fastest {
			fastest = e.Level
			p.Front = append(p.Front, e)
		}
	}
	p.Knee = knee(p.Front)
	return p
}

// knee returns the index of the point farthest below the line through the front's ends, or -1 (Satopaa et al. 2011,
// without smoothing).
func knee(front []*Entry) int {
	if len(front) < 3 {
		return -1
	}
	first, last := front[0], front[len(front)-1]
	x0, x1 := float64(first.Cost.SMs), float64(last.Cost.SMs)
	y0, y1 := first.Level, last.Level
	best, at := 0.0, -1
	for i, e := range front {
		x := (float64(e.Cost.SMs) - x0) / (x1 - x0)
		y := (y0 - e.Level) / (y0 - y1)
		if d := y - x; d > best {
			best, at = d, i
		}
	}
	return at
}

// ParetoTable lists the fronts of all cases.
func ParetoTable(cases []*Case) Table {
	p := ColumnsFor(cases)
	t := Table{Name: "pareto", Title: "Pareto front: time against SMs", Columns: p.Columns}
	t.Columns = append(t.Columns, Numbers("SMs", "").Leading(), Numbers("time", "us"), Numbers("over fastest", "%"), Words("knee"))
	t.Columns = append(t.Columns, ConfigColumns()...)
	for _, c := range cases {
		front := ParetoOf(c)
		for i, e := range front.Front {
			mark := Str("")
			if i == front.Knee {
				mark = Str("knee").Marked(Good)
			}
			fastest := front.Front[len(front.Front)-1]
			cells := append(p.Cells(c), Int(e.Cost.SMs), Micros(e.Level), Percent(e.Level/fastest.Level-1), mark)
			t.Add(append(cells, c.Cells(e)...)...)
		}
	}
	t.Note(p.Shared, "Each row has the fastest measured config with at most this number of SMs; the config may be unconfirmed. time excludes the drift between rounds, so it differs a little from the median.")
	t.Note(DefaultNotes(cases)...)
	return t
}
