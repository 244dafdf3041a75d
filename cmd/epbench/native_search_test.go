package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/epbench/epbench/tune/testfile"
)

// searchPrograms holds programs that compare epbench's search with other tuners.
const searchPrograms = "../../native/python/search"

func needsPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
}

func TestSearchPrograms(t *testing.T) {
	needsPython(t)
	if text, err := exec.Command("python3", "-B", filepath.Join(searchPrograms, "test_search.py")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestSearchSummaries compares the summaries in docs/search-hub.md with new ones.
func TestSearchSummaries(t *testing.T) {
	needsPython(t)
	const archive = "../../testdata/archive"
	for _, c := range []struct {
		program   string
		copied    []string
		args      []string
		summaries []string
	}{
		{"hub.py", []string{"hub-2026-11-28-losses.csv", "hub-2026-11-28-scores.csv"}, []string{"summary", "-o", "hub-2026-11-28"},
			[]string{"hub-2026-11-28-spaces.csv", "hub-2026-11-28-budgets.csv", "hub-2026-11-28-time.csv"}},
		{"priors.py", []string{"priors-2026-11-28.csv"}, []string{"summary", "priors-2026-11-28.csv", "-o", "priors-2026-11-28-summary.csv"},
			[]string{"priors-2026-11-28-summary.csv"}},
	} {
		dir := t.TempDir()
		for _, name := range c.copied {
			text := testfile.Read(t, filepath.Join(archive, name))
			testfile.Write(t, filepath.Join(dir, name), text)
		}
		program, err := filepath.Abs(filepath.Join(searchPrograms, c.program))
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("python3", append([]string{"-B", program}, c.args...)...)
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c.program, err, text)
		}
		for _, name := range c.summaries {
			want, _ := os.ReadFile(filepath.Join(archive, name))
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s differs from the summary that %s makes now (%v)", name, c.program, err)
			}
		}
	}
}
