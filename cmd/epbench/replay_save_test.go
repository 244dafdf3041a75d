package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/search/exchange"
)

// TestReplaySaveAs: epbench can read the files that the command "replay save --as" writes for other tuners.
func TestReplaySaveAs(t *testing.T) {
	for as, pattern := range map[string]string{"t4": "*/*_T4.json", "cache": "*/*.json"} {
		dir := t.TempDir()
		var out strings.Builder
		if code := run(t.Context(), []string{"replay", "save", "../../testdata/runs/cpu-sweep", "--as", as, "-o", dir}, &out, io.Discard); code != 0 || !strings.Contains(out.String(), "30 of 160 configs") {
			t.Fatalf("%s: exit %d: %s", as, code, out.String())
		}
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) != 8 {
			t.Fatalf("%s: %v, %v", as, files, err)
		}
		for _, path := range files {
			s, err := exchange.ReadFile(path)
			if err != nil || len(s.Points) != 30 || s.Inconsistent > 0 {
				t.Errorf("%s: %+v, %v", path, s, err)
			}
		}
	}
	if code := run(t.Context(), []string{"replay", "save", "../../testdata/runs/cpu-sweep", "--as", "xml", "-o", t.TempDir()}, io.Discard, io.Discard); code != exitUsage {
		t.Errorf("an unknown format: exit %d", code)
	}
}
