package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/kernels/conform"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

// tally counts the cases with one value of one axis, and their results.
type tally struct {
	cases, skipped, configs, rows, failed int
	maxErr                                float64
}

func (t *tally) add(r conform.Result) {
	t.cases++
	if r.Skipped != "" {
		t.skipped++
	}
	for _, o := range r.Trials {
		t.configs++
		t.rows += o.Compared.Rows
		t.maxErr = max(t.maxErr, o.Compared.MaxErr)
	}
	t.failed += len(r.Failed())
}

func title(m ep.Machine, l conform.Level) string {
	return fmt.Sprintf("Conformance of %s on %s, level %s", m.Backend, m.Name, l)
}

// verifyTables returns tables of results by tag (such as op=dispatch), of parameter values, and of failures.
func verifyTables(title string, tags []string, results []conform.Result) []reports.Table {
	t := reports.Table{
		Name:  "conformance",
		Title: title,
		Columns: []reports.Column{
			reports.Words("axis"), reports.Words("value"), reports.Numbers("cases", ""),
			reports.Numbers("skipped", "").Dropped(3), reports.Numbers("configs", ""), reports.Numbers("rows compared", ""),
			reports.Numbers("largest error", "%").Dropped(2), reports.Numbers("failed", ""), reports.Words("verdict"),
		},
	}
	tallies := map[string]*tally{}
	for _, r := range results {
		for _, tag := range append(r.Case.Tags, "all=") {
			if tallies[tag] == nil {
				tallies[tag] = &tally{}
			}
			tallies[tag].add(r)
		}
	}
	for _, tag := range append(tags, "all=") {
		if n := tallies[tag]; n != nil {
			t.Add(tallyCells(tag, *n)...)
		}
	}
	t.Note("rows compared: dispatched rows, activated rows and combined tokens. Each config is checked before and after a series of back-to-back calls, and the rows of both checks count",
		"largest error: relative to the largest magnitude in the row, 0 if all bytes are equal. Combine rounds to BF16; combine with algo=dedup rounds partial sums too")
	if skipped := skips(results); skipped != "" {
		t.Warn("%s", skipped)
	}
	tables := []reports.Table{t, parameterTable(results)}
	if failures := failureTable(results); len(failures.Rows) > 0 {
		tables = append(tables, failures)
	}
	return tables
}

func headlines(tables []reports.Table) []reports.Table {
	t := &tables[0]
	t.Rows = slices.DeleteFunc(t.Rows, func(r []reports.Cell) bool {
		failed := r[len(r)-1].Mark == reports.Bad
		return !failed && !slices.Contains([]string{"op", "dtype", "ranks", "all"}, r[0].Text)
	})
	t.Note("--all prints every axis, and how often each parameter value ran")
	return slices.DeleteFunc(tables, func(t reports.Table) bool { return t.Name == "parameters" })
}

func tallyCells(tag string, n tally) []reports.Cell {
	axis, value, _ := strings.Cut(tag, "=")
	verdict := reports.Str("ok")
	verdict.Mark = reports.Good
	switch {
	case n.failed > 0:
		verdict = reports.Str("FAILED")
		verdict.Mark = reports.Bad
	case n.configs == 0:
		verdict = reports.Str("not run")
	}
	return []reports.Cell{
		reports.Str(axis), reports.Str(value), reports.Int(n.cases), reports.Int(n.skipped), reports.Int(n.configs),
		reports.Int(n.rows), reports.Float(n.maxErr*100, 3), reports.Int(n.failed), verdict,
	}
}

func skips(results []conform.Result) string {
	n, seen := 0, map[string]bool{}
	var reasons []string
	for _, r := range results {
		if r.Skipped == "" {
			continue
		}
		n++
		if !seen[r.Skipped] {
			seen[r.Skipped] = true
			reasons = append(reasons, r.Skipped)
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d cases skipped: %s", n, strings.Join(reasons[:min(3, len(reasons))], "; "))
}

func failureTable(results []conform.Result) reports.Table {
	t := reports.Table{Name: "failures", Title: "Failures", Columns: []reports.Column{
		reports.Words("case"), reports.Words("config"), reports.Words("status"), reports.Words("reason"),
	}}
	left := 0
	for _, r := range results {
		for _, o := range r.Failed() {
			if len(t.Rows) == 40 {
				left++
				continue
			}
			status := reports.Str(string(o.Status))
			if o.Status == ep.Mismatch {
				status.Mark = reports.Bad
			}
			t.Add(reports.Str(r.Case.Name), reports.Str(o.Config.Key()), status, reports.Str(o.Reason))
		}
	}
	if left > 0 {
		t.Note(fmt.Sprintf("and %d more", left))
	}
	return t
}
