package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/sweep"
)

// TestGroupCases: all libraries of a case are in one comparison. Two layouts of one backend are in separate
// comparisons.
func TestGroupCases(t *testing.T) {
	sides := map[string]*sweep.InterleavedRun{}
	for _, name := range []string{"deepep", "ll", "ours"} {
		sides[name] = &sweep.InterleavedRun{}
	}
	at := func(side, work string, tokens int) runCase {
		return runCase{problem: ep.Problem{Op: ep.Dispatch, Tokens: tokens}, work: work, run: side, backend: side, routing: "uniform", seed: 1, Side: sweep.Side{Run: sides[side]}}
	}
	packed := func(x runCase) runCase {
		x.Problem.Layout = ep.LayoutRankPacked
		return x
	}
	for _, c := range []struct {
		cases []runCase
		want  string
	}{
		{[]runCase{at("deepep", "rank", 8), at("ll", "masked", 8), at("ours", "expert", 8), at("deepep", "rank", 128)}, "deepep ll ours, deepep"},
		{[]runCase{at("deepep", "rank", 8), at("ours", "expert", 8), at("ours", "rank", 8), at("ll", "masked", 8)}, "deepep ours, ours, ll"},
		{[]runCase{at("deepep", "rank", 8), at("ours", "rank", 8), packed(at("ours", "rank", 8)), packed(at("ll", "rank", 8))}, "deepep ours, ours ll"},
		{[]runCase{at("deepep", "rank", 8), at("deepep", "rank", 8)}, "deepep: the case dispatch, 8 tokens, uniform is also in another run of the same backend; give only one of the two runs"},
	} {
		comparisons, err := groupCases(c.cases)
		var got []string
		for _, h := range comparisons {
			var names []string
			for _, e := range h.Sides {
				i := slices.IndexFunc(c.cases, func(s runCase) bool { return s.Run == e.Run })
				names = append(names, c.cases[i].run)
			}
			got = append(got, strings.Join(names, " "))
		}
		text := strings.Join(got, ", ")
		if err != nil {
			text = fmt.Sprint(err)
		}
		if text != c.want {
			t.Errorf("%q, want %q", text, c.want)
		}
	}
}

// TestStartSideBySide: two backends start at the same time. A shared backend starts once.
func TestStartSideBySide(t *testing.T) {
	dir := t.TempDir()
	waits := func(mine, others string) origin {
		return origin{backend: fmt.Sprintf(`exec:sh -c 'echo >> %s; while ! test -e %s; do sleep 0.05; done; exit 3'`, filepath.Join(dir, mine), filepath.Join(dir, others))}
	}
	cmd := &cobra.Command{}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd.SetContext(ctx)
	turns := &interleaving{backends: map[string]*startedBackend{}}
	turns.start(cmd, []origin{waits("a", "b"), waits("b", "a"), waits("a", "b")})
	for spec, b := range turns.backends {
		if b.err == nil || !strings.Contains(b.err.Error(), "exit status 3") {
			t.Errorf("%s: %v", spec, b.err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(text) != "\n" {
		t.Errorf("want one line, because the shared backend writes a line at each start and must start once: %q, %v", text, err)
	}
}

// TestOrigins: interleave finds the backend of a run of sweep or bench.
func TestOrigins(t *testing.T) {
	for _, c := range []struct {
		want    origin
		fails   bool
		command []string
	}{
		{origin{"cpu", 0.05}, false, []string{"epbench", "sweep", "--backend=cpu", "--band=5%"}},
		{origin{backend: "exec:a b"}, false, []string{"epbench", "bench", "--backend=exec:a b", "--rounds=2", "--op=layer"}},
		{origin{}, true, []string{"epbench", "compare", "a", "b"}},
	} {
		got, err := originOf(c.command)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%v: %+v, %v", c.command, got, err)
		}
	}
}

// slowEnd is a backend whose Close waits for another backend's Close.
type slowEnd struct {
	kernels.Backend
	both *sync.WaitGroup
}

func (b slowEnd) Close() error {
	b.both.Done()
	b.both.Wait()
	return nil
}

func TestEndSideBySide(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	turns := &interleaving{backends: map[string]*startedBackend{"a": {Backend: slowEnd{both: &both}}, "b": {Backend: slowEnd{both: &both}}, "c": {err: errors.New("did not start")}}}
	done := make(chan struct{})
	go func() {
		turns.close()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("the backends are closed one after the other")
	}
}

// TestCheckInterleaved: runs with different seeds or with equal names are refused.
func TestCheckInterleaved(t *testing.T) {
	at := func(path string, seed uint64) *reports.Loaded {
		return &reports.Loaded{Path: path, Run: &record.Run{Seed: seed}}
	}
	for _, c := range []struct {
		runs []*reports.Loaded
		want string
	}{
		{[]*reports.Loaded{at("x/a", 1), at("x/b", 1)}, ""},
		{[]*reports.Loaded{at("x/a", 1), at("x/b", 5)}, "x/a was made with --seed 1, x/b with --seed 5"},
		{[]*reports.Loaded{at("x/a", 1), at("y/a", 1)}, "two of the runs have the name a"},
	} {
		err := checkInterleaved(c.runs)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
