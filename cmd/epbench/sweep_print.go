package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/sweep"
)

// mostWarnings are printed; run.json and the summary have all.
const mostWarnings = 6

// printOutcome prints the winners to stdout; where they lie and what to make
// of them goes to stderr.
func (f *sweepFlags) printOutcome(cmd *cobra.Command, out *sweep.Outcome, dir string) error {
	if err := f.tables.print(cmd, winners(out.Run)); err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	shown := min(len(out.Run.Warnings), mostWarnings)
	for _, w := range out.Run.Warnings[:shown] {
		fmt.Fprintln(stderr, "warning:", w)
	}
	if rest := len(out.Run.Warnings) - shown; rest > 0 {
		fmt.Fprintf(stderr, "warning: %d more in %s\n", rest, filepath.Join(dir, record.RunFile))
	}
	if f.profile {
		printProfile(stderr, out)
	}
	if out.Table != nil {
		fmt.Fprintf(stderr, "%d rows in %s\n", len(out.Table.Rows), filepath.Join(dir, record.TableFile))
	}
	return nil
}

// winners is what a sweep prints: what it decided, and how the spaces were cut
// down.
func winners(run *record.Run) reports.Table {
	t := reports.Winners(run)
	t.Note(rejections(run.Spaces)...)
	return t
}

// rejections says how many points each constraint removed, once for all
// problems that agree on it.
func rejections(spaces []record.SpaceInfo) []string {
	var out []string
	for _, s := range spaces {
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

// printPlan is --dry-run.
func (f *sweepFlags) printPlan(cmd *cobra.Command, p *sweep.Plan) error {
	n := reports.Numbers
	t := reports.Table{
		Name: "plan", Title: "Plan",
		Columns: []reports.Column{reports.Words("op"), reports.Words("format"), n("tokens", ""), reports.Words("routing"),
			reports.Words("class"), n("points", ""), n("legal", ""), n("measured", ""), n("samples", "")},
	}
	var spaces []record.SpaceInfo
	for _, s := range p.Searches {
		points := 0
		for _, c := range s.Counts {
			points += c.Points
			spaces = append(spaces, sweep.SpaceInfo(s.Problem(), c))
		}
		if s.Problem().Op == ep.Pair {
			points = s.Legal
		}
		t.Add(reports.Str(string(s.Problem().Op)), reports.Str(string(s.Problem().Dispatch)), reports.Int(s.Problem().Tokens),
			reports.Str(s.Routing()), reports.Str(string(s.Class())), reports.Int(points), reports.Int(s.Legal),
			reports.Int(s.Measured), reports.Int(s.Samples))
	}
	t.Notes = append(t.Notes, rejections(spaces)...)
	t.Notes = append(t.Notes,
		"pairs are made of the winners of their halves",
		fmt.Sprintf("%d searches, about %d samples: at least %v inside kernels, and verifying every candidate", len(p.Searches), p.Samples, p.AtLeast.Round(100*time.Millisecond)),
		"space "+p.Fingerprint+"; policy: "+p.Policy.String())
	return f.tables.print(cmd, t)
}

// printProfile is --profile.
func printProfile(w io.Writer, out *sweep.Outcome) {
	p := out.Profile
	rest := out.Wall - p.Kernels() - p.Prepare - p.Open
	share := func(d time.Duration) float64 { return 100 * d.Seconds() / out.Wall.Seconds() }
	fmt.Fprintf(w, "profile: %v in all; measured kernels %.0f %%, verifying %.0f %%, preparing %.0f %%, opening sessions %.0f %%, deciding and writing %.0f %%\n",
		out.Wall.Round(time.Millisecond), share(p.Run), share(p.Verify), share(p.Prepare), share(p.Open), share(rest))
}

// writeSummary is summary.md.
func writeSummary(w io.Writer, out *sweep.Outcome, cases []*reports.Case) error {
	run := out.Run
	fmt.Fprintf(w, "# epbench sweep\n\n%s (%s), %s, seed %d.\n\n", run.Machine.Name, run.Machine.Key(), run.Strategy, run.Seed)
	if out.NoTable != "" {
		fmt.Fprintf(w, "%s.\n\n", out.NoTable)
	}
	tables := []reports.Table{winners(run)}
	for _, t := range []reports.Table{reports.RegretTable(run), reports.ParetoTable(cases)} {
		if len(t.Rows) > 0 {
			tables = append(tables, t)
		}
	}
	if err := reports.WriteMarkdown(w, tables...); err != nil {
		return err
	}
	for _, warning := range run.Warnings {
		if _, err := fmt.Fprintf(w, "\n> warning: %s\n", warning); err != nil {
			return err
		}
	}
	return nil
}
