package html_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/chart"
	"github.com/epbench/epbench/reports/html"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

func load(t *testing.T, dir string) *reports.Loaded {
	t.Helper()
	l, err := reports.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// enlarged returns a synthetic run with at least `trials` trials.
func enlarged(t *testing.T, trials int) *reports.Loaded {
	t.Helper()
	l := load(t, "../testdata/runs/failures")
	candidates := slices.DeleteFunc(slices.Clone(l.Results), func(r record.Result) bool {
		return r.Role != record.Candidate || r.Stage != record.StageScreen
	})
	for copies := 1; len(l.Results) < trials; copies++ {
		for _, r := range candidates {
			r.Config = r.Config.With("chunk", ep.Value(strconv.Itoa(64*copies)))
			l.Results = append(l.Results, r)
		}
	}
	l.Cases = reports.Cases(l.Run, l.Results)
	return l
}

func save(t *testing.T, dir string, l *reports.Loaded) {
	t.Helper()
	d, err := record.CreateDir(dir, l.Run)
	if err != nil {
		t.Fatal(err)
	}
	for block := range slices.Chunk(l.Results, 1000) {
		err = errors.Join(err, d.Append(block, 1))
	}
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
}

func page(t *testing.T, runs ...*reports.Loaded) string {
	t.Helper()
	var b bytes.Buffer
	if err := html.Write(&b, runs, html.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPage(t *testing.T) {
	l := load(t, "../../testdata/runs/cpu-sweep")
	got := page(t, l)
	if got != page(t, l) {
		t.Error("two pages of one run differ")
	}
	last := -1
	for _, id := range []string{"gain", "launch", "latency", "machine", "workloads", "winners", "effects", "regret", "pareto", "space", "noise", "failures", "trials", "method"} {
		at := strings.Index(got, `<section id="`+id+`"`)
		if at <= last {
			t.Errorf("section %s is missing or out of order", id)
		}
		last = at
	}
	for _, want := range []string{"epbench sweep --backend=cpu", l.Run.Machine.Key(), string(l.Run.ABI), "zipf:1.0"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(got, "=<wbr>") {
		t.Error("a line may break between a parameter and its value")
	}
}

func TestNoBestGain(t *testing.T) {
	if got := page(t, load(t, "../../testdata/runs/cpu-single")); strings.Contains(got, "best gain") {
		t.Error("no config is faster, but the page has a best gain")
	}
	if got := page(t, load(t, "../../testdata/runs/cpu-sweep")); !strings.Contains(got, "best gain: dispatch, 16 tokens, zipf:1.0") {
		t.Error("the page has no best gain")
	}
}

func TestMorePicturesOfAllRuns(t *testing.T) {
	a, b := load(t, "../testdata/runs/failures"), load(t, "../testdata/runs/ties")
	first := a.Results
	for k := range 6 {
		for _, r := range first {
			r.Problem.Hidden = 128 * (k + 1)
			a.Results = append(a.Results, r)
		}
	}
	a.Cases = reports.Cases(a.Run, a.Results)
	var page bytes.Buffer
	if err := html.Write(&page, []*reports.Loaded{a, b}, html.Options{}); err != nil {
		t.Fatal(err)
	}
	if want := "more pictures: epbench plot ../testdata/runs/failures ../testdata/runs/ties --kind latency"; !strings.Contains(page.String(), want) {
		t.Errorf("the page has no %q", want)
	}
}

func TestPageNeedsNoNetwork(t *testing.T) {
	got := page(t, load(t, "../testdata/runs/failures"))
	for _, bad := range []string{`(?i)(src|href|action|data)\s*=\s*"(?:[a-z]+:)?//`, `(?i)url\(`, `@import`, `(?i)<(iframe|object|embed|link rel="(?:style|pre))`, `fetch\(`, `XMLHttpRequest`} {
		if m := regexp.MustCompile(bad).FindString(got); m != "" {
			t.Errorf("found %q", m)
		}
	}
}

func TestPageEscapes(t *testing.T) {
	const hostile = `<script>alert(1)</script>"'&`
	l := load(t, "../testdata/runs/failures")
	l.Path = "<img src=x onerror=alert(1)>"
	l.Run.Machine.Name, l.Run.Command, l.Run.Warnings = hostile, []string{hostile}, []string{hostile}
	for _, c := range l.Cases {
		c.Routing = hostile
		for _, e := range c.Entries {
			if e.Status != ep.OK {
				e.Reason = hostile
			}
		}
	}
	got := page(t, l)
	if strings.Contains(got, "<script>alert") || strings.Contains(got, "<img src=x") {
		t.Error("text of a run became an HTML element")
	}
	if n := strings.Count(got, "<script>"); n != 1 {
		t.Errorf("%d scripts, want only the page's own", n)
	}
}

func TestPageOfPoorRuns(t *testing.T) {
	l := load(t, "../testdata/runs/failures")
	run, results := l.Run, l.Results
	for i := range results {
		results[i].Status, results[i].Reason, results[i].Seconds = ep.Crash, "the worker died", nil
	}
	run.AA, run.Workloads, run.Regrets, run.Finished = nil, nil, nil, time.Time{}
	for i := range run.Searches {
		run.Searches[i].Decision.Cause = record.NoDefault
	}
	got := page(t, &reports.Loaded{Path: "dead", Run: run, Results: results, Cases: reports.Cases(run, results)})
	for _, want := range []string{"The default failed in all of 16 cases", "the worker died", "interrupted or still runs"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// TestHundredThousandTrials: the output takes at most 1 GiB and at most three times the CPU time of reading the run.
func TestHundredThousandTrials(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("too slow for short mode and for the race detector")
	}
	dir := filepath.Join(t.TempDir(), "run")
	save(t, dir, enlarged(t, 100_000))
	before, _ := usage(t)
	l := load(t, dir)
	if len(l.Results) < 99_000 {
		t.Fatalf("%d trials", len(l.Results))
	}
	read, _ := usage(t)
	reports.DerivedTables(l, reports.Speeds{}, 0)
	size := len(page(t, l))
	for _, k := range chart.Kinds {
		for _, f := range k.Draw([]*reports.Loaded{l}, chart.Options{}) {
			if err := f.Write(&bytes.Buffer{}, "svg", 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	after, peak := usage(t)
	t.Logf("CPU time: %v to read the run, %v for tables, pictures and a page of %d bytes; peak memory %d MB", read-before, after-read, size, peak>>20)
	if after-read > 3*(read-before) {
		t.Errorf("tables, page and pictures take %v of CPU time, and reading the run %v; three times as much is allowed", after-read, read-before)
	}
	if peak > 1<<30 {
		t.Errorf("the peak of memory is %d MiB, 1024 are allowed", peak>>20)
	}
}

// usage returns the CPU time and the peak memory in bytes.
func usage(t *testing.T) (cpu time.Duration, peak int64) {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Maxrss << 10
}

func TestRehearsal(t *testing.T) {
	l, err := reports.Load(filepath.Join("..", "..", "testdata", "runs", "cpu-sweep"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := html.Write(&b, []*reports.Loaded{l}, html.Options{}); err != nil {
		t.Fatal(err)
	}
	lead := l.Run.Rehearsal()
	_, body, _ := strings.Cut(b.String(), "<header>\n")
	if lead == "" || !strings.HasPrefix(body, `<div class="rehearsal" role="note">`+lead) {
		t.Errorf("the page begins with %.80s", body)
	}
	pictures := strings.Split(body, "<svg ")[1:]
	for _, p := range pictures {
		p, _, _ = strings.Cut(p, "</svg>")
		if !strings.Contains(p, ">"+lead+"</text>") {
			t.Errorf("a picture does not say %q: %.200s", lead, p)
		}
	}
	if len(pictures) < 5 {
		t.Errorf("the page has %d pictures, want at least 5", len(pictures))
	}
}
