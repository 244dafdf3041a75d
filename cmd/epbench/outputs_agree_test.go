package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/sweep"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/testfile"
)

var recordedRuns = []string{"cpu-sweep", "h200x2-deepseek-v3"}

// TestOutputsAgree compares all outputs of a run with its run.json.
func TestOutputsAgree(t *testing.T) {
	for _, name := range recordedRuns {
		t.Run(name, func(t *testing.T) {
			agree(t, filepath.Join("..", "..", "testdata", "runs", name), "")
		})
	}
	t.Run("fresh sweep", func(t *testing.T) {
		if testing.Short() {
			t.Skip("runs a real sweep; left out with -short")
		}
		useSteadyBackend(t, func() {})
		dir := filepath.Join(t.TempDir(), "run")
		agree(t, dir, epbench(t, "sweep", "--backend=cpu", "--op=dispatch,combine", "--budget=12",
			"--routing=zipf:1.0,uniform,local", "--tokens=1,64", "-o", dir)) // with routing "local" the default is not the winner
	})
}

func epbench(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), args, &stdout, &stderr); code != exitDone {
		t.Fatalf("%v: exit %d: %s", args, code, stderr.String())
	}
	return stdout.String()
}

type shownTables struct {
	winners, regret []line // nil: the output has no such table
	exact           bool   // an output for programs: all digits, complete configs
}

type outputs struct {
	tables   map[string]shownTables
	rows     []line
	pictures map[string]picture
	table    *table.Table // nil if the run wrote none
}

const winnersTitle, regretTitle = "Winners: what to launch\n", "Regret: what each winner loses under every routing\n"

// readOutputs collects the outputs of a run. stdout is a sweep's output, or "" for a committed run.
func readOutputs(t *testing.T, facts *record.Run, dir, stdout string) outputs {
	t.Helper()
	tmp := t.TempDir()
	report := func(format string) string {
		return epbench(t, "report", dir, "--no-html", "--only", "winners,regret", "--format", format)
	}
	made := dir
	if stdout == "" {
		made = tmp
		epbench(t, "report", dir, "-o", filepath.Join(tmp, record.ReportFile))
		makeSummary(t, dir, filepath.Join(tmp, record.SummaryFile))
	}
	summary := testfile.Read(t, filepath.Join(made, record.SummaryFile))
	page := testfile.Read(t, filepath.Join(made, record.ReportFile))
	text, csv, js := report("text"), report("csv"), report("json")
	epbench(t, "plot", dir, "--kind", "latency,heatmap,pareto,regret,samples", "--limit", "0", "-o", tmp)
	out := outputs{pictures: pictures(t, tmp), tables: map[string]shownTables{}}
	for name, read := range map[string]func(title, name string) []line{
		"terminal":   func(title, _ string) []line { return textTable(t, text, title) },
		"summary.md": func(title, _ string) []line { return markdownTable(t, string(summary), title) },
		"page":       func(_, name string) []line { return htmlTable(t, string(page), name) },
		"csv":        func(_, name string) []line { return csvTable(t, csv, name) },
		"json":       func(_, name string) []line { return jsonTable(t, js, name) },
	} {
		s := shownTables{winners: read(winnersTitle, "winners"), exact: name == "csv" || name == "json"}
		if len(facts.Regrets) > 0 {
			s.regret = read(regretTitle, "regret")
		}
		out.tables[name] = s
	}
	if stdout != "" {
		out.tables["sweep"] = shownTables{winners: textTable(t, stdout, winnersTitle)}
	}
	for name, p := range pictures(t, filepath.Join(dir, record.PlotsDir)) {
		if again, ok := out.pictures[name]; ok && p != again {
			t.Errorf("plots: %s differs from the picture that plot draws now", name)
		}
	}
	if tuned, err := table.LoadFile(filepath.Join(dir, record.TableFile), true); err == nil {
		out.table, out.rows = tuned, htmlTable(t, string(page), "rows")
	}
	return out
}

func makeSummary(t *testing.T, dir, path string) {
	t.Helper()
	l, err := reports.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writeSummary(&b, &sweep.Summary{Run: l.Run}, l.Cases); err != nil {
		t.Fatal(err)
	}
	testfile.Write(t, path, b.Bytes())
}

// agree compares outputs with run.json, then changes one fact at a time. Each output that shows the fact must then
// differ.
func agree(t *testing.T, dir, stdout string) {
	facts, err := record.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := readOutputs(t, facts, dir, stdout)
	for _, d := range disagreements(facts, out) {
		t.Error(d)
	}
	if t.Failed() {
		return
	}
	at := slices.IndexFunc(facts.Searches, func(s record.Search) bool { return s.Decision.Cause == "" && s.Decision.Gain != record.One })
	for _, m := range mutants(out) {
		if at < 0 || m.regret && len(facts.Regrets) == 0 {
			t.Logf("this run has no decision that shows the %s", m.fact)
			continue
		}
		changed, _ := record.ReadRun(dir)
		m.change(changed, &changed.Searches[at])
		found := strings.Join(disagreements(changed, out), "\n")
		for _, source := range m.shownBy {
			if !strings.Contains(found, source+":") {
				t.Errorf("after the %s in run.json was changed, no difference to %s was found", m.fact, source)
			}
		}
	}
}

type mutant struct {
	fact    string
	change  func(*record.Run, *record.Search)
	shownBy []string
	regret  bool
}

func mutants(out outputs) []mutant {
	other := ep.Config{Kernel: "other", Values: map[string]ep.Value{"blocks": "7"}}
	tables := slices.Collect(maps.Keys(out.tables))
	matrices := slices.DeleteFunc(slices.Clone(tables), func(name string) bool { return out.tables[name].regret == nil })
	with := func(names []string, more ...string) []string {
		if out.table == nil {
			more = slices.DeleteFunc(more, func(name string) bool { return name == "table.json" })
		}
		return append(slices.Clone(names), more...)
	}
	// minimax changes all problems: table.json shows the change only in rows of class "all", which some problems lack.
	minimax := func(r *record.Run, change func(*record.RegretRow)) {
		for _, x := range r.Regrets {
			change(&x.Rows[len(x.Rows)-1])
		}
	}
	return []mutant{
		{"winner", func(_ *record.Run, s *record.Search) { s.Decision.Config = other }, with(tables, "heatmap", "pareto", "samples", "table.json"), false},
		{"gain", func(_ *record.Run, s *record.Search) { s.Decision.Gain.Mid *= 0.998 }, with(tables, "table.json"), false},
		{"low end of a gain", func(_ *record.Run, s *record.Search) { s.Decision.Gain.Low *= 0.998 }, tables, false},
		{"verdict", func(_ *record.Run, s *record.Search) { s.Decision.Verdict += "?" }, tables, false},
		{"time", func(_ *record.Run, s *record.Search) { s.Times.Median *= 1.01 }, with(tables, "latency", "samples"), false},
		{"regret", func(r *record.Run, _ *record.Search) { r.Regrets[0].Rows[0].Loss[1] += 0.002 }, with(matrices, "regret"), true},
		{"worst regret", func(r *record.Run, _ *record.Search) { r.Regrets[0].Rows[1].Worst += 0.002 }, with(matrices, "regret"), true},
		{"minimax config", func(r *record.Run, _ *record.Search) { minimax(r, func(x *record.RegretRow) { x.Config = other }) }, with(matrices, "regret", "table.json"), true},
		{"minimax loss", func(r *record.Run, _ *record.Search) { minimax(r, func(x *record.RegretRow) { x.Worst += 0.5 }) }, with(matrices, "regret", "table.json"), true},
	}
}

func disagreements(facts *record.Run, out outputs) (bad []string) {
	say := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(out.tables)) {
		s := out.tables[name]
		checkWinners(func(f string, args ...any) { say(name+": "+f, args...) }, facts, s)
		if s.regret != nil {
			checkRegret(func(f string, args ...any) { say(name+": "+f, args...) }, facts, s)
		}
	}
	checkPictures(say, facts, out.pictures)
	if out.table != nil {
		checkRows(func(f string, args ...any) { say("table.json: "+f, args...) }, facts, out.table)
		checkPageRows(func(f string, args ...any) { say("page: "+f, args...) }, out.table, out.rows)
	}
	return bad
}

type sayer func(format string, args ...any)

// same compares a printed number with `value`. Outputs for programs must agree to five digits, other outputs to the
// printed decimals.
func (s shownTables) same(text string, value float64, decimals int) bool {
	if math.IsNaN(value) {
		return text == "-" || text == "<nil>" || text == ""
	}
	x, err := strconv.ParseFloat(text, 64)
	if s.exact {
		return err == nil && math.Abs(x-value) <= 1e-5*math.Abs(value)
	}
	_, fraction, _ := strings.Cut(text, ".")
	return err == nil && len(fraction) >= decimals && math.Abs(x-value) <= 0.5001*math.Pow10(-len(fraction))
}

func (s shownTables) config(c, dflt ep.Config) string {
	if s.exact {
		return c.Key()
	}
	return c.Difference(dflt)
}

func checkWinners(say sayer, facts *record.Run, s shownTables) {
	if len(s.winners) != len(facts.Searches) {
		say("%d winners, but run.json has %d", len(s.winners), len(facts.Searches))
		return
	}
	for i, x := range facts.Searches {
		l, d := s.winners[i], x.Decision
		if want := caseKey(x.Problem, x.Routing); l.key() != want {
			say("winner %d is of %s, want %s", i, l.key(), want)
			continue
		}
		verdict := string(d.Verdict)
		if d.Cause != "" {
			verdict = string(d.Cause)
		}
		if l["verdict"] != verdict {
			say("%s: verdict %s, want %s", l.key(), l["verdict"], verdict)
		}
		if !x.OK() {
			continue
		}
		if l["config"] != s.config(d.Config, d.Default) || l["id"] != d.Config.ID() {
			say("%s: config %s (%s), want %s (%s)", l.key(), l["config"], l["id"], s.config(d.Config, d.Default), d.Config.ID())
		}
		for name, want := range map[string]float64{"gain": d.Gain.Mid, "low": measuredEnd(d, d.Gain.Low), "high": measuredEnd(d, d.Gain.High)} {
			figures := 3
			if want >= 9.9995 {
				figures = 2
			}
			if !s.same(l[name], want, figures) {
				say("%s: %s %s, want %v", l.key(), name, l[name], want)
			}
		}
		if !s.same(l["median"], x.Times.Median*1e6, 0) {
			say("%s: median %s, want %v", l.key(), l["median"], x.Times.Median*1e6)
		}
	}
}

// measuredEnd returns an end of a gain's interval, or NaN if the gain has no interval.
func measuredEnd(d record.Decision, end float64) float64 {
	if d.Gain == record.One {
		return math.NaN()
	}
	return end
}

func caseKey(p ep.Problem, routing string) string {
	return fmt.Sprintf("%s %s %d %s", p.Op, p.Precision, p.Tokens, routing)
}

func checkRegret(say sayer, facts *record.Run, s shownTables) {
	at := 0
	for _, r := range facts.Regrets {
		for _, row := range r.Rows {
			if at == len(s.regret) {
				say("%d rows of regret, but run.json has more", at)
				return
			}
			l := s.regret[at]
			at++
			if want := caseKey(r.Problem, row.Routing); l.key() != want {
				say("regret of %s, want %s", l.key(), want)
				continue
			}
			if want := s.config(row.Config, defaultOf(facts, r.Problem)); l["config"] != want {
				say("regret of %s: config %s, want %s", l.key(), l["config"], want)
			}
			for i, routing := range r.Routings {
				if !s.same(l[routing], 100*float64(row.Loss[i]), 1) {
					say("regret of %s under %s: %s, want %v", l.key(), routing, l[routing], 100*float64(row.Loss[i]))
				}
			}
			if !s.same(l["worst"], 100*float64(row.Worst), 1) {
				say("worst regret of %s: %s, want %v", l.key(), l["worst"], 100*float64(row.Worst))
			}
		}
	}
	if at != len(s.regret) {
		say("%d rows of regret, but run.json has %d", len(s.regret), at)
	}
}

func defaultOf(facts *record.Run, p ep.Problem) ep.Config {
	for _, s := range facts.Searches {
		if s.Problem == p {
			return s.Decision.Default
		}
	}
	return ep.Config{}
}
