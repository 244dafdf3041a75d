package sweep

import (
	"errors"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// crashAbove returns a backend whose dispatch crashes above `tokens` tokens.
func crashAbove(tokens int) *scripted {
	return &scripted{OnVerify: func(c call) (int, error) {
		if c.Problem.Op == ep.Dispatch && c.Problem.Tokens > tokens {
			return 0, kernels.Failf(ep.Crash, "rank 1: illegal address")
		}
		return 0, nil
	}}
}

// TestDefaultsCrash: a sweep ends after the third default that crashes.
func TestDefaultsCrash(t *testing.T) {
	o := options(t, "dispatch,combine", []int{1, 4, 16, 64, 256}, "uniform", "zipf:1.5")
	b := crashAbove(0)
	p := planOf(t, b, o)
	run, path := &record.Run{Machine: b.Machine()}, t.TempDir()
	dir, err := record.CreateDir(path, run)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Run(t.Context(), b, p, dir, run, nil)
	var crash *DefaultsCrash
	if out != nil || !errors.As(err, &crash) || !strings.Contains(err.Error(), "the default failed: crash: rank 1: illegal address; the defaults of all 3 searches so far crashed or hung: mend the worker") {
		t.Fatal(err)
	}
	if b.Opened != mostCrashes || len(run.Searches) != mostCrashes || dir.Results() == 0 {
		t.Errorf("%d sessions, %d searches, %d results", b.Opened, len(run.Searches), dir.Results())
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	dir, run, results, _, err := record.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := Retry(run, results, crash.Configs); err != nil {
		t.Fatal(err)
	}
	if out, err := Run(t.Context(), crashAbove(999), p, dir, run, results); err != nil || out.Table == nil {
		t.Errorf("after the worker was mended and the defaults of the error were retried: %v, %v", out, err)
	}
}

// TestSkipAfterCrashes: after three crashes of dispatch, the other searches of dispatch are skipped.
func TestSkipAfterCrashes(t *testing.T) {
	o := options(t, "dispatch,combine", []int{1, 4, 16, 64, 256}, "uniform", "zipf:1.5")
	b := crashAbove(4)
	out := mustSweep(t, b, o, t.TempDir())
	failed, skipped, right := 0, 0, 0
	for _, s := range out.Run.Searches {
		switch reason := s.Decision.Reason; {
		case s.Decision.Usable():
			right++
		case strings.HasPrefix(reason, "the default failed: crash"):
			failed++
		case reason == "not measured, because the defaults of 3 searches with other tokens or routings crashed or hung; the last of them: the default failed: crash: rank 1: illegal address":
			skipped++
		default:
			t.Error(reason)
		}
	}
	if failed != mostCrashes || skipped != 6-mostCrashes || right != 14 {
		t.Errorf("%d searches failed, %d were skipped, %d were right; want 3, 3 and 14", failed, skipped, right)
	}
	if out.Table == nil {
		t.Error(out.NoTable)
	}
}

func TestProbeReports(t *testing.T) {
	o := options(t, "dispatch", []int{1, 16, 64}, "uniform")
	var titles []string
	o.Progress = func(e Event) { titles = append(titles, e.Title) }
	first := ""
	b := &scripted{OnOpen: func(n int) error {
		if n == 1 && len(titles) > 0 {
			first = titles[0]
		}
		return nil
	}}
	p := planOf(t, b, o)
	if err := p.Probe(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if first != "probe of dispatch, bf16, 1 token, uniform" || titles[len(titles)-1] != "probe of dispatch, bf16, 64 tokens, uniform" {
		t.Errorf("%q before the first session, then %q", first, titles)
	}
}
