// Package testfile reads, writes and compares files in tests. Its functions return no errors: they fail the test.
package testfile

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Read returns the content of a file.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Write writes a file, and returns the file's path. It makes the file's folder if needed.
func Write[T ~[]byte | ~string](t testing.TB, path string, content T) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Golden fails the test if text differs from the content of a file. With EPBENCH_UPDATE=1 in the
// environment, Golden first writes the text to the file.
func Golden(t testing.TB, path string, text []byte) {
	t.Helper()
	if os.Getenv("EPBENCH_UPDATE") == "1" {
		Write(t, path, text)
	}
	old := Read(t, path)
	if bytes.Equal(text, old) {
		return
	}
	now, was := bytes.Split(text, []byte("\n")), bytes.Split(old, []byte("\n"))
	n := 0
	for n < min(len(now), len(was))-1 && bytes.Equal(now[n], was[n]) {
		n++
	}
	t.Errorf("%s: the first difference is in line %d. Run make golden (for README, docs and their pictures: make pages), and review the change. The file has\n%.500s\nIt should have\n%.500s", path, n+1, was[n], now[n])
}

// JSON decodes a JSON text.
func JSON[T any](t testing.TB, text []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
