package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/testfile"
)

// TestMakeTables: a restart of native/make-tables.sh resumes interrupted sweeps and keeps finished sweeps.
func TestMakeTables(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real sweeps; left out with -short")
	}
	bin := program(t)
	dir := filepath.Join(t.TempDir(), "out")
	first := makeTables(t, bin, dir, "2s", "demo", "qwen3-30b-a3b")
	f, err := os.Open(filepath.Join(dir, "table.json"))
	if err != nil {
		t.Fatalf("%v\n%s", err, first)
	}
	defer f.Close()
	tuned, err := table.Load(f)
	if err != nil {
		t.Fatal(err)
	}
	hidden := map[int]bool{}
	for _, r := range tuned.Rows {
		hidden[r.Key.Hidden] = true
	}
	if !hidden[512] || !hidden[2048] || !strings.Contains(first, "receipt ") {
		t.Errorf("hidden sizes %v\n%s", hidden, first)
	}
	if again := makeTables(t, bin, dir, "2s", "demo", "qwen3-30b-a3b"); strings.Contains(again, "Winners") {
		t.Errorf("a finished sweep was run again\n%s", again)
	}
	demo := filepath.Join(dir, "demo", "table.json")
	if err := os.Remove(demo); err != nil {
		t.Fatal(err)
	}
	resumed := makeTables(t, bin, dir, "2s", "demo", "qwen3-30b-a3b")
	if _, err := os.Stat(demo); err != nil {
		t.Errorf("a sweep without its table was not resumed: %v\n%s", err, resumed)
	}
	interrupted := filepath.Join(dir, "demo", "run.json")
	text := testfile.Read(t, interrupted)
	text = regexp.MustCompile(`"finished": "[^"]*"`).ReplaceAll(text, []byte(`"finished": "0001-01-01T00:00:00Z"`))
	testfile.Write(t, interrupted, text)
	if again := makeTables(t, bin, dir, "2s", "demo", "qwen3-30b-a3b"); !strings.Contains(again, "resuming ") {
		t.Errorf("an interrupted sweep that has a table was not resumed\n%s", again)
	}
	if usage := makeTables(t, bin, dir); !strings.Contains(usage, "make-tables.sh OUT BUDGET MODEL") {
		t.Errorf("without models the script prints %q", usage)
	}
}

func makeTables(t *testing.T, bin, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("sh", append([]string{filepath.Join("..", "..", "native", "make-tables.sh"), dir}, args...)...)
	cmd.Env = append(os.Environ(), "EPBENCH="+bin, "BACKEND=cpu", "RANKS=2", "TOKENS=1", "DTYPES=bf16", "ROUTINGS=uniform", steadyEnv+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // callers read a failed script's output
		t.Fatal(err)
	}
	return string(out)
}
