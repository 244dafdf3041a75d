package reports

import (
	"cmp"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// Failure is a config that failed in the same way in all of Cases.
type Failure struct {
	Status ep.Status
	Reason string
	Entry  *Entry // in the first of Cases
	Cases  []*Case
}

// Failures lists failed configs, the worst status first.
func Failures(cases []*Case) []*Failure {
	type id struct {
		status      ep.Status
		reason, key string
	}
	known := map[id]*Failure{}
	var out []*Failure
	for _, c := range cases {
		for _, e := range c.Entries {
			if e.Status == ep.OK {
				continue
			}
			k := id{e.Status, e.Reason, e.Key}
			if known[k] == nil {
				known[k] = &Failure{Status: e.Status, Reason: e.Reason, Entry: e}
				out = append(out, known[k])
			}
			known[k].Cases = append(known[k].Cases, c)
		}
	}
	slices.SortStableFunc(out, func(a, b *Failure) int {
		return cmp.Or(cmp.Compare(slices.Index(severity, a.Status), slices.Index(severity, b.Status)), strings.Compare(a.Reason, b.Reason), strings.Compare(a.Entry.Key, b.Entry.Key))
	})
	return out
}

var severity = []ep.Status{
	ep.Mismatch, ep.Hang, ep.Crash, ep.LaunchFailed, ep.CompileFailed, ep.Unstable, ep.Illegal,
}

// FailedTable lists at most `limit` failed configs. If `limit` is 0, it lists all failed configs.
func FailedTable(cases []*Case, limit int) Table {
	t := Table{
		Name: "failed", Title: "Failed: configs that did not run or gave wrong answers",
		Columns: slices.Concat([]Column{Words("status")}, ConfigColumns(), []Column{Numbers("cases", ""), Words("reason")}),
	}
	all := Failures(cases)
	for i, f := range all {
		if limit > 0 && i == limit {
			t.Warn("%d more failures are not shown; --format csv prints all", len(all)-limit)
			break
		}
		mark := Bad
		if f.Status == ep.Illegal {
			mark = Dim
		}
		t.Add(slices.Concat([]Cell{Str(string(f.Status)).Marked(mark)}, f.Cases[0].Cells(f.Entry), []Cell{Int(len(f.Cases)), Str(f.Reason)})...)
	}
	return t
}
