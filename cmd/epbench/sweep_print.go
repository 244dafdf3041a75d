package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/text"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/sweep"
	"github.com/epbench/epbench/tune/table"
)

func (f *sweepFlags) print(cmd *cobra.Command, out *sweep.Summary, dir string) error {
	rows := 0
	if out.Table != nil {
		rows = len(out.Table.Rows)
	}
	tables := []reports.Table{winners(out.Run)}
	if f.tables.forPrograms() {
		tables = append([]reports.Table{reports.SummaryTable(out.Run, dir, rows)}, tables...)
	}
	f.tables.lead = out.Run.Rehearsal()
	if err := f.tables.print(cmd, tables...); err != nil {
		return err
	}
	f.tables.warn(cmd, reports.GatherWarnings(out.Run.Warnings))
	if f.profile {
		fmt.Fprintf(cmd.ErrOrStderr(), "profile: %v\n", out.Run.Wall)
	}
	if f.tables.forPrograms() {
		return nil
	}
	return f.ending(cmd, out, dir)
}

// fewSearches is the number of searches above which the largest gains are listed again.
const fewSearches = 12

// ending prints the headline and the next commands.
func (f *sweepFlags) ending(cmd *cobra.Command, out *sweep.Summary, dir string) error {
	stdout := cmd.OutOrStdout()
	fmt.Fprintln(stdout)
	if top := reports.LargestGains(out.Run); len(out.Run.Searches) > fewSearches && len(top.Rows) > 0 {
		if err := f.tables.print(cmd, top); err != nil {
			return err
		}
		fmt.Fprintln(stdout)
	}
	lines := reports.Summarise(out.Run).Lines()
	if text := wholeText(out.Run); text != "" {
		lines = append(lines, text)
	}
	if out.Table != nil {
		lines = append(lines, rowsText(out.Run, out.Table))
	}
	lines = append(lines, "This took "+out.Run.Wall.String()+".")
	if err := f.tables.paragraphs(cmd, lines...); err != nil || out.Table == nil {
		return err
	}
	fmt.Fprintln(stdout, "\nNext:")
	tokens := 0
	for _, s := range out.Run.Searches {
		tokens = max(tokens, s.Problem.Tokens)
	}
	name := ep.Quote(dir)
	for _, next := range []string{"report " + name, fmt.Sprintf("table lookup --table %s --tokens %d", name, tokens), "table export --table " + name + " --format c -o tuned.h"} {
		fmt.Fprintln(stdout, indented(text.Command(programName()+" "+next, max(0, f.tables.columns(cmd)-2))))
	}
	return nil
}

func indented(lines string) string { return "  " + strings.ReplaceAll(lines, "\n", "\n  ") }

func rowsText(run *record.Run, t *table.Table) string {
	all := 0
	for _, r := range t.Rows {
		if r.Key.Routing == ep.AllRoutings {
			all++
		}
	}
	without := 0
	for _, s := range run.Searches {
		if !s.Decision.Usable() {
			without++
		}
	}
	text := fmt.Sprintf("%s from %s: %d for one routing class, %d for every routing. Neighbouring token counts with the same config share a row",
		ep.Count(len(t.Rows), "row"), ep.Count(len(run.Searches), "case"), len(t.Rows)-all, all)
	if without > 0 {
		text += fmt.Sprintf("; %s gave no row, because of noise or failure", ep.Count(without, "case"))
	}
	return text + "."
}

// winners returns the table of winners, with notes on the points that constraints removed.
func winners(run *record.Run) reports.Table {
	t := reports.Winners(run)
	t.Note(rejections(run.Spaces)...)
	return t
}

// rejections says how many points each constraint removed.
func rejections(spaces []record.SpaceInfo) []string {
	const most = 8
	var out []string
	for _, s := range spaces {
		if len(out) == most {
			return append(out, "further problems are not listed")
		}
		if len(s.Rejected) == 0 {
			continue
		}
		text := fmt.Sprintf("%s: %d of %d points are legal", s.Kernel, s.Legal, s.Points)
		for _, r := range s.Rejected {
			text += fmt.Sprintf("; %s removed %d", r.Rule, r.Count)
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// manySearches is the largest number of searches that --dry-run prints one by one.
const manySearches = 60

func (f *sweepFlags) printPlan(cmd *cobra.Command, p *sweep.Plan) error {
	n := reports.Numbers
	t := reports.Table{
		Name: "plan", Title: fmt.Sprintf("Plan: %d searches, about %d samples: %s", len(p.Searches), p.Samples, costText(p)),
		Columns: []reports.Column{reports.Words("op"), reports.Words("dtype"), n("tokens", ""), reports.Words("routing"),
			reports.Words("class"), n("points", ""), n("legal", ""), n("measured", ""), n("samples", "")},
	}
	var spaces []record.SpaceInfo
	for _, s := range p.Searches {
		points := 0
		for _, space := range s.Spaces {
			points += space.Points
			spaces = append(spaces, space)
		}
		if s.Problem().Op == ep.Pair {
			points = s.Legal
		}
		t.Add(reports.Str(string(s.Problem().Op)), reports.Str(string(s.Problem().Dispatch)), reports.Int(s.Problem().Tokens),
			reports.Str(s.Routing()), reports.Str(string(s.Class())), reports.Int(points), reports.Int(s.Legal),
			reports.Int(s.Measured), reports.Int(s.Samples))
	}
	if len(t.Rows) > manySearches && !f.tables.forPrograms() {
		t.Rows = summedUp(t.Rows)
		t.Note(`columns "measured" and "samples": sums over the row's token counts; columns "points" and "legal": numbers for the row's last token count`)
	}
	t.Note(rejections(spaces)...)
	if n := p.Policy.Sessions; n > 0 {
		t.Note(fmt.Sprintf("sessions: each search is followed by %d further sessions", n))
	}
	t.Note("candidates for op pair are made of the best configs of dispatch and combine", "space "+p.Fingerprint+"; policy: "+p.Policy.String())
	return f.tables.print(cmd, t)
}

// costText says how long a plan takes.
func costText(p *sweep.Plan) string {
	whole, least, most := p.Estimate(), p.Least(), p.Options.Time
	const how = " (estimated with a probe of two rounds; includes compilation, checks and sessions)"
	switch {
	case most == 0:
		return fmt.Sprintf("about %v%s", whole.Round(time.Second), how)
	case least > most:
		return fmt.Sprintf("at least %v%s, longer than the budget of %v", least.Round(time.Second), how, most)
	case whole <= most:
		return fmt.Sprintf("about %v%s: every config is measured", whole.Round(time.Second), how)
	case p.Options.Strategy == search.DefaultStrategy:
		return fmt.Sprintf("about %v, the budget%s: not every config is measured, because that would take %v", most, how, whole.Round(time.Second))
	}
	return fmt.Sprintf("about %v, the budget%s", most, how)
}

// wholeText says in how many spaces every config was measured, or returns "".
func wholeText(run *record.Run) string {
	whole, searched := 0, 0
	var tried, legal int
	for _, s := range run.Searches {
		switch {
		case s.Problem.Op == ep.Pair || s.SiblingDType != "":
		case s.Tried >= s.Legal:
			whole++
		default:
			searched, tried, legal = searched+1, tried+s.Tried, legal+s.Legal
		}
	}
	switch {
	case searched == 0 && whole == 0:
		return ""
	case searched == 0:
		return fmt.Sprintf("Every config was measured in %d of %s.", whole, ep.Count(whole, "space"))
	}
	return fmt.Sprintf("Every config was measured in %d of %s; in the others %.2g %% of the configs were tried.",
		whole, ep.Count(whole+searched, "space"), 100*float64(tried)/float64(max(legal, 1)))
}

// summedUp merges the rows of a plan that differ only in tokens.
func summedUp(rows [][]reports.Cell) [][]reports.Cell {
	const tokens, measured, samples = 2, 7, 8
	type key struct{ op, dtype, routing string }
	at := map[key]int{}
	var out [][]reports.Cell
	for _, r := range rows {
		k := key{r[0].Text, r[1].Text, r[3].Text}
		i, seen := at[k]
		if !seen {
			at[k] = len(out)
			out = append(out, r)
			continue
		}
		sum := slices.Clone(r)
		first, _, _ := strings.Cut(out[i][tokens].Text, "-")
		sum[tokens] = reports.Str(first + "-" + r[tokens].Text)
		for _, c := range []int{measured, samples} {
			sum[c] = reports.Int(out[i][c].Value.(int) + r[c].Value.(int))
		}
		out[i] = sum
	}
	return out
}

func writeSummary(w io.Writer, out *sweep.Summary, cases []*reports.Case) error {
	run := out.Run
	if text := run.Rehearsal(); text != "" {
		fmt.Fprintf(w, "%s\n\n", text)
	}
	fmt.Fprintf(w, "# epbench sweep\n\n%s\n\n%s (%s), strategy %s, seed %d.\n\n", strings.Join(reports.Summarise(run).Lines(), "\n\n"), run.Machine.Name, run.Machine.Key(), run.Strategy, run.Seed)
	if out.NoTable != "" {
		fmt.Fprintf(w, "%s.\n\n", out.NoTable)
	}
	tables := []reports.Table{winners(run)}
	beside, _ := reports.BesideTable(run)
	for _, t := range []reports.Table{beside, reports.RegretTable(run), reports.ParetoTable(cases)} {
		if len(t.Rows) > 0 {
			tables = append(tables, t)
		}
	}
	if err := reports.WriteMarkdown(w, tables...); err != nil {
		return err
	}
	for _, warning := range reports.GatherWarnings(run.Warnings) {
		if _, err := fmt.Fprintf(w, "\n> warning: %s\n", warning); err != nil {
			return err
		}
	}
	return nil
}
