package reports

import (
	"fmt"

	"github.com/epbench/epbench/tune/record"
)

// ComparisonTable prints a comparison.
func ComparisonTable(c *Comparison) Table {
	cases := make([]*Case, len(c.Cases))
	for i, x := range c.Cases {
		cases[i] = x.Case
	}
	p := ColumnsFor(cases)
	t := Table{Name: "compare", Title: fmt.Sprintf("%s (B) against %s (A)", c.B.Name(), c.A.Name()), Columns: p.Columns}
	t.Columns = append(t.Columns, Numbers("A", "us").Dropped(3), Numbers("B", "us").Dropped(2), Numbers("ratio", "x"),
		Numbers("low", "x").Dropped(1), Numbers("high", "x").Dropped(1), Numbers("cycles", "x").Dropped(4), Words("verdict"), Words("reason"))
	for _, x := range c.Cases {
		t.Add(append(p.Cells(x.Case), medianCell(x.A), medianCell(x.B), Float(x.Ratio.Mid, 3), Float(x.Ratio.Low, 3), Float(x.Ratio.High, 3),
			Float(x.Cycles, 3), Str(string(x.Verdict)).Marked(verdictMarks[x.Verdict]), Str(x.Reason))...)
	}
	t.Note(p.Shared, "ratio: median of B over median of A; low, high: its 95 % bootstrap interval; of the differences called in all cases together at most 5 % are chance")
	t.Note(c.Summary())
	for _, n := range c.Notes {
		t.Warn("%s", n)
	}
	return t
}

var verdictMarks = map[record.Verdict]Mark{record.Same: Plain, record.Faster: Good, record.Slower: Bad, record.Undecided: Dim}

func medianCell(e *Entry) Cell {
	if e == nil {
		return None()
	}
	return Micros(e.Median.Mid)
}

// Summary says how a comparison went in a sentence or two.
func (c *Comparison) Summary() string {
	counts := map[record.Verdict]int{}
	for _, x := range c.Cases {
		counts[x.Verdict]++
	}
	s := fmt.Sprintf("%d cases: %d same, %d faster, %d slower, %d undecided.", len(c.Cases), counts[record.Same], counts[record.Faster], counts[record.Slower], counts[record.Undecided])
	if c.Worst >= 0 {
		s += fmt.Sprintf(" Geometric mean %.4f (%.4f to %.4f); worst %.3f: %s.", c.Geomean.Mid, c.Geomean.Low, c.Geomean.High,
			c.Cases[c.Worst].Ratio.Mid, c.Cases[c.Worst].Case.Title())
	}
	return s
}
