package sweep

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search/spacefile"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/workloads"
)

func options(t *testing.T, ops string, tokens []int, routings ...string) *Options {
	t.Helper()
	o := &Options{Seed: 1, Strategy: "race", Tool: "test"}
	for _, spec := range routings {
		d, err := workloads.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		o.Distributions = append(o.Distributions, d)
	}
	for op := range strings.SplitSeq(ops, ",") {
		for _, n := range tokens {
			o.Problems = append(o.Problems, ep.Problem{Op: ep.Op(op), Mode: ep.Eager, Ranks: 4, Nodes: 1, Hidden: 64,
				Experts: 16, TopK: 2, Tokens: n, MaxTokens: n, Dispatch: ep.BF16, Combine: ep.BF16})
		}
	}
	return o
}

// sweepInto runs or continues a sweep in dir.
func sweepInto(ctx context.Context, b kernels.Backend, o *Options, dir string) (*Summary, error) {
	p, err := MakePlan(b, o)
	if err != nil {
		return nil, err
	}
	run := &record.Run{Machine: b.Machine(), ABI: ABI(b), Space: p.Fingerprint, Policy: p.Policy.String(), Seed: o.Seed}
	d, err := record.CreateDir(dir, run)
	var results []record.Result
	if err != nil {
		if d, run, results, _, err = record.OpenDir(dir); err != nil {
			return nil, err
		}
	}
	defer d.Close()
	return Run(ctx, b, p, d, run, results)
}

func trials(t *testing.T, dir string) []record.Result {
	t.Helper()
	_, results, _, err := record.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// spaceFile parses the text of a space file. The text must lack the version.
func spaceFile(t *testing.T, text string) *spacefile.File {
	t.Helper()
	f, err := spacefile.Read(strings.NewReader("version: 1\n" + text + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustSweep(t *testing.T, b kernels.Backend, o *Options, dir string) *Summary {
	t.Helper()
	out, err := sweepInto(context.Background(), b, o, dir)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func rows(t *table.Table) []string {
	var out []string
	for _, r := range t.Rows {
		out = append(out, strings.Join([]string{r.Key.String(), string(rune('0' + r.Lo%10)), string(rune('0' + r.Hi%10)), r.Config.Key()}, " "))
	}
	return out
}

const best = "dispatch:algo=direct,sms=32,threads=512"

func TestSweepFindsTheBest(t *testing.T) {
	dir := t.TempDir()
	b := &scripted{Sigma: 0.01}
	o := options(t, "dispatch,combine,pair", []int{1, 16}, "uniform", "zipf:1.5")
	out := mustSweep(t, b, o, dir)
	if out.Table == nil {
		t.Fatal(out.NoTable)
	}
	if err := out.Table.Seal(); err != nil {
		t.Fatal(err)
	}
	for _, c := range out.Run.Searches {
		if d := c.Decision; d.Verdict != record.Faster || !strings.Contains(d.Config.Key(), "sms=32,") || d.Gain.Low < 1.2 {
			t.Errorf("%s, %d tokens, %s: %s %s, gain from %.3f", c.Problem.Op, c.Problem.Tokens, c.Routing, d.Verdict, d.Config.Key(), d.Gain.Low)
		}
	}
	for _, r := range out.Table.Rows {
		if r.Lo != 1 || r.Hi != 16 || len(r.Evidence.Tokens) < 2 {
			t.Errorf("equal winners are not merged: %+v", r)
		}
	}
	if len(trials(t, dir)) == 0 {
		t.Error("the run directory has no results")
	}
}

func TestSweepAgainMeasuresNothing(t *testing.T) {
	dir := t.TempDir()
	o := options(t, "dispatch,combine,pair", []int{1, 16}, "uniform", "zipf:1.5")
	first := mustSweep(t, &scripted{Sigma: 0.02}, o, dir)
	again := &scripted{Sigma: 0.02}
	second := mustSweep(t, again, o, dir)
	if again.Runs != 0 || again.Opened != 0 {
		t.Errorf("resuming a finished sweep ran %d rounds in %d sessions", again.Runs, again.Opened)
	}
	if !reflect.DeepEqual(first.Run.Searches, second.Run.Searches) || !reflect.DeepEqual(first.Table.Rows, second.Table.Rows) {
		t.Error("resuming a finished sweep decides otherwise")
	}
}

func TestFaultsEndInTheRightStatus(t *testing.T) {
	fast := "dispatch:algo=direct,sms=16,threads=512"
	quick := func(p ep.Problem, _ string, c ep.Config) float64 {
		if c.Key() == fast {
			return 0.5e-5
		}
		return landscape(p, "", c)
	}
	for _, c := range []struct {
		name    string
		backend *scripted
		status  ep.Status // of the fast config
		warning string
	}{
		{"hang in warm-up", &scripted{OnRun: func(c call, _ []float64) error {
			if c.Config.Key() == fast {
				return kernels.Failf(ep.Hang, "rank 1 waited for expert 3 of rank 2")
			}
			return nil
		}}, ep.Hang, ""},
		{"crash in round 7", &scripted{OnRun: func(c call, _ []float64) error {
			if c.Config.Key() == fast && c.Runs == 7 {
				return kernels.Failf(ep.Crash, "the worker died: signal 11")
			}
			return nil
		}}, ep.Crash, ""},
		{"wrong after timing", &scripted{OnVerify: func(c call) (int, error) {
			if c.Config.Key() == fast && c.Runs > 10 {
				return 2, nil
			}
			return 0, nil
		}}, ep.Mismatch, ""},
		{"a clock that reads nothing", &scripted{OnRun: func(c call, row []float64) error {
			if c.Config.Key() == fast && c.Runs == 9 {
				clear(row)
			}
			return nil
		}}, ep.Unstable, ""},
		{"a straggling rank", &scripted{OnRun: func(c call, row []float64) error {
			if c.Runs%20 == 7 {
				row[2] *= 50
			}
			if c.Config.Key() == fast {
				for i := range row {
					row[i] *= 10
				}
			}
			return nil
		}}, ep.OK, "rank 2 held up"},
		{"drifting clocks", &scripted{MHz: func(all int) float64 { return 1980 - float64(min(all, 800))/2 }, OnRun: func(c call, row []float64) error {
			for i := range row {
				row[i] *= 1 + float64(min(c.All, 800))/3200
				if c.Config.Key() == fast {
					row[i] *= 10
				}
			}
			return nil
		}}, ep.OK, "throttle"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.backend.Sigma, c.backend.Truth = 0.01, quick
			o := options(t, "dispatch", []int{16}, "uniform")
			out := mustSweep(t, c.backend, o, dir)
			if got := out.Run.Searches[0].Decision; got.Config.Key() != best || got.Verdict != record.Faster {
				t.Errorf("the winner is %s (%s %s)", got.Config.Key(), got.Verdict, got.Reason)
			}
			results := trials(t, dir)
			if got := statusOf(results, fast); got != c.status {
				t.Errorf("%s is %s, want %s", fast, got, c.status)
			}
			if c.warning != "" && !warned(out.Run, results, c.warning) {
				t.Errorf("there is no warning with %q", c.warning)
			}
			healthy := &scripted{Sigma: 0.01, Truth: quick}
			again := mustSweep(t, healthy, o, dir)
			if healthy.Runs != 0 || again.Run.Searches[0].Decision.Config.Key() != best {
				t.Errorf("resumed: %d rounds run, the winner is %s", healthy.Runs, again.Run.Searches[0].Decision.Config.Key())
			}
		})
	}
}

func statusOf(results []record.Result, key string) ep.Status {
	status := ep.OK
	for _, r := range results {
		if r.Config.Key() == key && r.Status != ep.OK {
			status = r.Status
		}
	}
	return status
}

func warned(run *record.Run, results []record.Result, text string) bool {
	all := strings.Join(run.Warnings, "\n")
	for _, r := range results {
		all += strings.Join(r.Warnings, "\n")
	}
	return strings.Contains(all, text)
}

var errGone = errors.New("the worker is gone")

func TestWorkerGoneDuringConfirm(t *testing.T) {
	o := options(t, "dispatch", []int{16}, "uniform")
	for name, reopens := range map[string]bool{"and back": true, "for good": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			gone := false
			b := &scripted{Sigma: 0.01}
			b.OnRun = func(c call, _ []float64) error {
				if c.Config.Key() == best && c.Runs == 40 && !gone {
					gone = true
					return errGone
				}
				return nil
			}
			b.OnOpen = func(int) error {
				if gone && !reopens {
					return errGone
				}
				return nil
			}
			out, err := sweepInto(context.Background(), b, o, dir)
			if reopens != (err == nil) || err != nil && !errors.Is(err, measure.ErrLost) {
				t.Fatalf("the sweep ends with %v", err)
			}
			if !gone {
				t.Fatal("the fault was not reached")
			}
			if !reopens {
				out = mustSweep(t, &scripted{Sigma: 0.01}, o, dir)
			}
			if got := out.Run.Searches[0].Decision.Config.Key(); got != best {
				t.Errorf("the winner is %s", got)
			}
			noDuplicates(t, dir)
		})
	}
}

func noDuplicates(t *testing.T, dir string) {
	t.Helper()
	_, results, warnings, err := record.ReadDir(dir)
	if err != nil || warnings != nil {
		t.Fatal(err, warnings)
	}
	if _, err := measure.IndexBlocks(results); err != nil {
		t.Error(err)
	}
	for i, r := range results {
		if r.Seq != i {
			t.Errorf("line %d has seq %d", i, r.Seq)
		}
	}
}

// TestNoisyMachineWritesNoTable: the reason names flags that help, and the proposed band makes a table.
func TestNoisyMachineWritesNoTable(t *testing.T) {
	o := options(t, "dispatch", []int{1, 16}, "uniform")
	out := mustSweep(t, &scripted{Sigma: 0.5}, o, t.TempDir())
	if out.Table != nil || !strings.Contains(out.NoTable, "two measurements of the default differ by more than the band") {
		t.Fatalf("table %v, %q", out.Table != nil, out.NoTable)
	}
	for _, s := range out.Run.Searches {
		if !s.Decision.Band.Noisy() {
			t.Errorf("band %+v", s.Decision.Band)
		}
	}
	var percent float64
	if _, proposal, _ := strings.Cut(out.NoTable, "--band "); proposal == "" {
		t.Fatalf("%q proposes no band", out.NoTable)
	} else if _, err := fmt.Sscanf(proposal, "%f%%", &percent); err != nil {
		t.Fatal(err)
	}
	o.Band = percent / 100
	if again := mustSweep(t, &scripted{Sigma: 0.5}, o, t.TempDir()); again.Table == nil {
		t.Errorf("with a band of %v %%: %s", percent, again.NoTable)
	}
}

func TestRetryGivesAnotherChance(t *testing.T) {
	dir := t.TempDir()
	o := options(t, "dispatch", []int{16}, "uniform")
	b := &scripted{Sigma: 0.01, OnRun: func(c call, _ []float64) error {
		if c.Config.Key() == best {
			return kernels.Failf(ep.Crash, "a stray cosmic ray")
		}
		return nil
	}}
	if out := mustSweep(t, b, o, dir); out.Run.Searches[0].Decision.Config.Key() == best {
		t.Fatal("a crashing config won")
	}
	d, run, results, _, err := record.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := Retry(run, results, []string{"dispatch:algo=direct,sms=8,threads=256"}); err == nil || !strings.Contains(err.Error(), "did not fail in this run; failed were "+best) {
		t.Errorf("retrying a healthy config: %v", err)
	}
	c := parse(t, best)
	difference := c.Difference(results[0].Config)
	if err := Retry(run, results, []string{best, c.ID(), difference, strings.ReplaceAll(difference, " ", ",")}); err != nil || len(run.Retried) != 1 {
		t.Fatal(run.Retried, err)
	}
	for range 2 { // the second sweep reads the log
		b := &scripted{Sigma: 0.01}
		p := planOf(t, b, o)
		out, err := Run(context.Background(), b, p, d, run, results)
		if err != nil {
			t.Fatal(err)
		}
		if got := out.Run.Searches[0].Decision.Config.Key(); got != best {
			t.Errorf("the winner is %s", got)
		}
		if len(out.Run.AA) != 1 || len(out.Run.Searches) != 1 {
			t.Errorf("%d A/A tests of %d searches", len(out.Run.AA), len(out.Run.Searches))
		}
		d.Close()
		if d, run, results, _, err = record.OpenDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	d.Close()
}

func TestNoComparisonTwice(t *testing.T) {
	seen := map[string]int{}
	b := &scripted{OnVerify: func(c call) (int, error) {
		seen[c.Config.Key()]++
		return 0, nil
	}}
	mustSweep(t, b, options(t, "dispatch", []int{16}, "uniform"), t.TempDir())
	for key, n := range seen {
		if n > 2 {
			t.Errorf("%s was compared with the oracle %d times, want at most 2", key, n)
		}
	}
}

func TestHostBoundHasAReason(t *testing.T) {
	out := ranOn(t, &scripted{Sigma: 0.001}, options(t, "dispatch", []int{1}, "uniform"), 1.5e-5)
	c := out.Run.Searches[0].Decision
	if tried := out.Run.Searches[0].Tried; c.Cause != record.HostBound || !strings.Contains(c.Reason, "cannot matter here") || c.Config.Key() != c.Default.Key() || tried > 3 {
		t.Errorf("%s after %d configs: %s", c.Cause, tried, c.Reason)
	}
	if r := out.Table.Rows[0]; !r.Default {
		t.Errorf("the row is %+v", r)
	}
}
