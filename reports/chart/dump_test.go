package chart

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/reportstest"
)

// TestDump writes every figure of the synthetic run to CHART_DUMP, for eyes.
func TestDump(t *testing.T) {
	dir := os.Getenv("CHART_DUMP")
	if dir == "" {
		t.Skip("set CHART_DUMP to a directory to look at the figures")
	}
	run, results := reportstest.Small().Make()
	l := &reports.Loaded{Path: "a", Run: run, Results: results, Cases: reports.Cases(run, results)}
	s := reportstest.Small()
	s.Seed = 2
	run2, results2 := s.Make()
	for i := range results2 {
		results2[i].Seed = 1
	}
	m := &reports.Loaded{Path: "b", Run: run2, Results: results2, Cases: reports.Cases(run2, results2)}
	for _, k := range Kinds {
		runs := []*reports.Loaded{l}
		if k.Name == "compare" {
			runs = append(runs, m)
		}
		figs := k.Draw(runs, Options{Fail: 0.03, Loads: []Load{{Title: "dispatch", Name: "x", Experts: []int{5, 3, 9, 1, 2, 2, 0, 3}, Ranks: []int{8, 10, 4, 3}, Traffic: [][]float64{{1, 2, 3, 4}, {4, 3, 2, 1}, {0, 0, 1, 1}, {1, 1, 1, 1}}}}})
		for i, f := range figs {
			if i > 1 {
				break
			}
			for _, ext := range []string{"png", "svg"} {
				w, err := os.Create(filepath.Join(dir, f.Name+"."+ext))
				if err != nil {
					t.Fatal(err)
				}
				if err := f.Write(w, ext); err != nil {
					t.Fatal(err)
				}
				w.Close()
			}
		}
		t.Log(k.Name, len(figs))
	}
}
