package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// searchPrograms is the folder of the programs that compare the search with other tuners.
const searchPrograms = "../../native/python/search"

func needsPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
}

// TestSearchPrograms runs the programs' own tests.
func TestSearchPrograms(t *testing.T) {
	needsPython(t)
	if text, err := exec.Command("python3", "-B", filepath.Join(searchPrograms, "test_search.py")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}
