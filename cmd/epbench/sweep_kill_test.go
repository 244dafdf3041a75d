package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// TestSweepSurvivesKills kills the sweep `kills` times. Each kill comes after at most `maxRuns` calls of Run.
const kills, maxRuns = 20, 250

// TestSweepSurvivesKills kills a sweep at random calls and resumes it. The log has each block once, complete and in
// order.
func TestSweepSurvivesKills(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a real sweep; left out with -short")
	}
	bin := program(t)
	run := filepath.Join(t.TempDir(), "run")
	args := []string{"sweep", "--backend=cpu", "--op=dispatch,combine", "--tokens=1,16", "--routing=uniform,zipf:1.0", "--budget=12", "--out=" + run}
	rng := rand.New(rand.NewPCG(1, 2))
	died := 0
	for died < kills {
		finished, err := runUntil(bin, args, fmt.Sprintf("%d:%dus", 1+rng.IntN(maxRuns), rng.IntN(10_000)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(run, record.TrialsFile)); err == nil {
			args = []string{"sweep", "--resume=" + run}
		}
		if finished {
			break
		}
		died++
	}
	if finished, err := runUntil(bin, args, ""); err != nil || !finished {
		t.Fatal(finished, err)
	}
	t.Logf("killed %d times", died)
	if died < kills/2 {
		t.Errorf("the sweep ended after only %d kills; make it longer", died)
	}
	checkLog(t, run)
}

// TestKilledEarly: a sweep killed in its first search has already written an empty kernel's time.
func TestKilledEarly(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a real sweep; left out with -short")
	}
	run := filepath.Join(t.TempDir(), "run")
	finished, err := runUntil(program(t), []string{"sweep", "--backend=cpu", "--op=dispatch", "--tokens=4", "--routing=uniform", "--budget=8", "--out=" + run}, "2:0us")
	if err != nil || finished {
		t.Fatal(finished, err)
	}
	text, err := os.ReadFile(filepath.Join(run, record.RunFile))
	if err != nil || !bytes.Contains(text, []byte(`"empty"`)) {
		t.Errorf("run.json has no time of an empty kernel (%v)", err)
	}
}

// program returns a path under which the test binary runs as epbench.
func program(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "epbench")
	if err := os.Symlink(exe, bin); err != nil {
		t.Skip(err)
	}
	return bin
}

func runUntil(bin string, args []string, how string) (finished bool, err error) {
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), steadyEnv+"=1", dieEnv+"="+how)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &exit) && exit.ExitCode() == -1:
		return false, nil
	}
	return false, fmt.Errorf("%w: %s", err, stderr.String())
}

// checkLog fails on incomplete lines, and on repeated or missing blocks.
func checkLog(t *testing.T, dir string) {
	t.Helper()
	_, results, warnings, err := record.ReadDir(dir)
	if err != nil || warnings != nil {
		t.Fatal(err, warnings)
	}
	type stage struct {
		problem ep.Problem
		routing string
		name    record.Stage
	}
	next := map[stage]int{}
	seen := map[string]bool{}
	for i, r := range results {
		at := stage{r.Problem, r.Routing, r.Stage}
		if r.Seq != i {
			t.Fatalf("line %d has seq %d", i, r.Seq)
		}
		if r.Block != next[at] {
			t.Fatalf("line %d has block %d of %v, want %d", i, r.Block, at, next[at])
		}
		id := fmt.Sprint(at, r.Block, r.Role, r.Config.Key())
		if seen[id] {
			t.Fatalf("line %d repeats %s", i, id)
		}
		seen[id] = true
		if r.End {
			next[at]++
		}
	}
	if !results[len(results)-1].End {
		t.Error("the log ends inside a block")
	}
}
