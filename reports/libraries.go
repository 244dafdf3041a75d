package reports

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// LibraryTable lists each library's tuned time in each case, and the library's gain over its own default.
func LibraryTable(choices []LibraryComparison) Table {
	cases := casesOf(choices)
	p := ColumnsFor(cases)
	t := Table{Name: "libraries", Title: "Libraries that do the same work", Columns: append(p.Columns,
		Words("work").Keyed(), Words("library"), Words("config").Dropped(3), Numbers("time", "us"), Numbers("to fastest", "x"), Numbers("at least", "x").Dropped(2),
		Numbers("at most", "x").Dropped(2), Numbers("gain", "x"), Numbers("low", "x").Dropped(1), Numbers("high", "x").Dropped(1))}
	for i, c := range choices {
		for k, o := range c.Libraries {
			ratio, own := record.One, o.Own()
			if k > 0 {
				ratio, _ = o.ratioTo(c.Libraries[0])
			}
			t.Add(append(p.Cells(cases[i]), Str(c.Work), Str(o.Library), Cell{Text: o.Case.Label(o.Entry), Value: o.Entry.Key}, Micros(o.Entry.Median.Mid),
				Gain(ratio.Mid), Gain(ratio.Low), Gain(ratio.High), Gain(own.Mid), Gain(own.Low), Gain(own.High))...)
		}
	}
	t.Note(p.Shared, "work: the layout, the kind of sum, the steps that the time includes, and the clock. Times of different work are not compared",
		"to fastest: the library's time divided by the time of the fastest library at the same work; at least, at most: its 95 % interval; gain: the time of the library's own default divided by the library's tuned time, in the same rounds; low, high: its 95 % interval")
	t.Note(howCompared(choices))
	t.Note(ownGains(choices)...)
	warnOfSeeds(&t, choices)
	return t
}

// SeveralRuns reports whether any comparison has more than one run.
func SeveralRuns(choices []LibraryComparison) bool {
	return slices.ContainsFunc(choices, func(c LibraryComparison) bool { return len(c.Libraries) > 1 })
}

// SeveralLibraries reports whether any comparison has more than one library.
func SeveralLibraries(choices []LibraryComparison) bool {
	return slices.ContainsFunc(choices, func(c LibraryComparison) bool {
		return slices.ContainsFunc(c.Libraries, func(o LibraryTime) bool { return o.plainName != c.Libraries[0].plainName })
	})
}

func ownGains(choices []LibraryComparison) []string {
	var names []string
	counts, best := map[string]*Count{}, map[string]*record.Search{}
	for _, c := range choices {
		for _, o := range c.Libraries {
			s := o.Case.Search
			if s == nil || !s.OK() {
				continue
			}
			if counts[o.Library] == nil {
				names, counts[o.Library] = append(names, o.Library), &Count{}
			}
			counts[o.Library].add(s)
			if b := best[o.Library]; b == nil || s.Decision.Gain.Mid > b.Decision.Gain.Mid {
				best[o.Library] = s
			}
		}
	}
	var out []string
	for _, name := range names {
		if b := best[name]; b.Decision.Gain.Mid > 1 {
			out = append(out, fmt.Sprintf("tuning gains %s %s over its own default (geometric mean of %s); the largest gain is %s (%s)",
				name, spelledGain(stat.GeoMean(counts[name].gains)), ep.Count(counts[name].Searches, "case"), spelledGain(b.Decision.Gain), Title(b.Problem, b.Routing)))
		}
	}
	return out
}

func spelledGain(g record.Interval) string {
	return fmt.Sprintf("%sx [%s, %s]", Gain(g.Mid).Text, Gain(g.Low).Text, Gain(g.High).Text)
}
