package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// engineRuns has an entry for each page about an engine. The entry maps the names of runs in the page's commands to
// folders of testdata.
var engineRuns = map[string]map[string]string{
	"README.md":         {"run": "runs/h200x2-deepseek-v3"},
	"run-deepep.md":     {"before": "peers/h100x2/deepep", "after": "peers/h100x2/deepep"},
	"run-flashinfer.md": {"flashinfer": "peers/h100x2/flashinfer", "flashinfer-after": "peers/h100x2/flashinfer"},
	"run-nccl.md":       {"nccl": "peers/h100x2/nccl"},
	"run-max.md":        {"run": "runs/h200x2-deepseek-v3", "run-after": "runs/h200x2-deepseek-v3", "constants": "runs/h200x2-deepseek-v3"},
}

// TestEnginePages runs the commands of these pages on recorded runs, except commands that need GPUs or NVRTC.
func TestEnginePages(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for _, c := range docCommands(t, root) {
		args := shellWords(c.line)
		if engineRuns[c.file] == nil || !c.gpu || !slices.Contains([]string{"report", "compare", "table"}, args[0]) {
			continue
		}
		ran[c.file]++
		t.Run(c.file+"/"+c.line, func(t *testing.T) {
			t.Chdir(t.TempDir())
			onTerminal(t, 80)
			for name, recorded := range engineRuns[c.file] {
				if err := os.CopyFS(name, os.DirFS(filepath.Join(root, "testdata", recorded))); err != nil {
					t.Fatal(err)
				}
			}
			if args[1] == "explain" {
				t.Skip("the recorded run of DeepEP has no table; testdata/script tests table explain")
			}
			var stdout, stderr bytes.Buffer
			code := run(context.Background(), args, &stdout, &stderr)
			if code != exitDone && !(args[0] == "compare" && code == exitUndecided) {
				t.Errorf("exit %d\n%s%s", code, stdout.String(), stderr.String())
			}
			checkWidth(t, args, 80, stdout.String())
		})
	}
	for page := range engineRuns {
		if ran[page] == 0 {
			t.Errorf("%s has no command that reads a run", page)
		}
	}
}
