package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
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
	if err := f.tables.print(cmd, winnersTable(out.Run)); err != nil {
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

// winnersTable is what a sweep prints: a line per problem and routing.
func winnersTable(run *record.Run) reports.Table {
	n := reports.Numbers
	t := reports.Table{
		Name: "winners", Title: "Winners",
		Columns: []reports.Column{
			reports.Words("op"), reports.Words("format").Dropped(9).Keyed(), n("tokens", ""), reports.Words("routing"),
			reports.Words("class").Dropped(8), reports.Words("verdict"), reports.Words("config"),
			n("median", "us"), n("p10", "us").Dropped(5), n("p90", "us").Dropped(4),
			n("gain", "x"), n("from", "x").Dropped(3), n("to", "x").Dropped(2), n("error", "%").Dropped(5),
			n("busiest", "GB/s"), n("imbalance", "x").Dropped(6), n("tried", "").Dropped(7), n("legal", "").Dropped(10),
		},
	}
	for _, o := range run.Outcomes {
		t.Add(outcomeCells(o)...)
	}
	t.Notes = append(t.Notes,
		"config: what differs from the default; --json and run.json spell it in full",
		"median over rounds of the slowest rank, on rounds that had no part in the choice; gain: the default's time over the choice's, with its 95 % interval; error: the largest seen against the oracle, relative to the row's largest magnitude",
		"busiest: bytes of the busiest rank, a message a selection, over the slowest rank's time; imbalance: fullest rank over the mean")
	t.Notes = append(t.Notes, rejections(run.Spaces)...)
	return t
}

func outcomeCells(o record.Outcome) []reports.Cell {
	config := reports.Cell{Text: changes(o.Config, o.Default), Value: o.Config.Key()}
	verdict := reports.Str(o.Verdict)
	switch o.Verdict {
	case record.Faster:
		verdict = verdict.Marked(reports.Good)
	case record.Noisy, record.Failed:
		verdict = verdict.Marked(reports.Bad)
	}
	head := []reports.Cell{
		reports.Str(reports.OpTitle(o.Problem.Op, o.Problem.Precision)), reports.Str(string(o.Problem.Dispatch)), reports.Int(o.Problem.Tokens),
		reports.Str(o.Routing), reports.Str(string(o.Class)), verdict,
	}
	if o.Verdict == record.Failed {
		head = append(head, reports.None())
		for len(head) < 18 {
			head = append(head, reports.None())
		}
		return head
	}
	return append(head, config,
		reports.Micros(o.Median), reports.Micros(o.P10), reports.Micros(o.P90),
		reports.Float(o.Gain, 3), reports.Float(o.GainLo, 3), reports.Float(o.GainHi, 3), reports.Float(100*o.MaxErr, 3),
		reports.Float(float64(o.Bytes)/o.Median/1e9, 3), reports.Float(o.Imbalance, 2),
		reports.Int(o.Evaluations), reports.Int(o.Legal))
}

// changes spells a config by what differs from the default, in full where it is
// of another kernel.
func changes(c, dflt ep.Config) string {
	if c.Kernel != dflt.Kernel {
		return c.Key()
	}
	var out []string
	for _, name := range c.Names() {
		if c.Values[name] != dflt.Values[name] {
			out = append(out, name+"="+string(c.Values[name]))
		}
	}
	if len(out) == 0 {
		return "default"
	}
	return strings.Join(out, " ")
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
			spaces = append(spaces, sweep.SpaceInfo(s.Problem, c))
		}
		if s.Problem.Op == ep.Pair {
			points = s.Legal
		}
		t.Add(reports.Str(string(s.Problem.Op)), reports.Str(string(s.Problem.Dispatch)), reports.Int(s.Problem.Tokens),
			reports.Str(s.Routing), reports.Str(string(s.Class)), reports.Int(points), reports.Int(s.Legal),
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
	tables := []reports.Table{winnersTable(run)}
	for _, r := range out.Regrets {
		tables = append(tables, reports.RegretTable(r))
	}
	if front := reports.ParetoTable(cases); len(front.Rows) > 0 {
		tables = append(tables, front)
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
