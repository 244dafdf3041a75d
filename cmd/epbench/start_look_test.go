package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestAskPython: start recognizes DeepEP V2 by its files. Package sgl-deep-ep 0.1.0 has only V1, 0.1.2 also has V2.
func TestAskPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	for version, file := range map[string]string{"0.1.0": "buffer.py", "0.1.2": "buffers/elastic.py"} {
		dir := t.TempDir()
		writeFiles(t, dir, map[string]string{
			"deep_ep/__init__.py":                 "raise ImportError('start must not import this')",
			"deep_ep/" + file:                     "",
			"sgl_deep_ep.dist-info/METADATA":      "Metadata-Version: 2.1\nName: sgl-deep-ep\nVersion: " + version + "\n",
			"sgl_deep_ep.dist-info/top_level.txt": "deep_ep\n",
		})
		t.Setenv("PYTHONPATH", dir)
		var s surroundings
		s.askPython(t.Context())
		want := ""
		if version == "0.1.2" {
			want = filepath.Join(dir, "deep_ep", file)
		}
		if s.Modules["deep_ep"] != "sgl-deep-ep "+version || s.Elastic != want {
			t.Errorf("sgl-deep-ep %s: deep_ep is %q, and V2's module is %q, want %q", version, s.Modules["deep_ep"], s.Elastic, want)
		}
		const program = `import sys; sys.path.insert(0, "../../native/python/workers"); from harness import installed_version; print(installed_version("deep_ep", "1"))`
		out, err := exec.CommandContext(t.Context(), "python3", "-B", "-c", program).CombinedOutput()
		if want := "1 (sgl-deep-ep " + version + ")\n"; err != nil || string(out) != want {
			t.Errorf("sgl-deep-ep %s: the workers give the version %q, %v, want %q", version, out, err, want)
		}
	}
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
