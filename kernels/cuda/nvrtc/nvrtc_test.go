//go:build cuda || nvrtc

package nvrtc

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestCandidates: a program in the bin of a repository finds what make cuda-deps put into
// its .cuda.
func TestCandidates(t *testing.T) {
	root := t.TempDir()
	want := filepath.Join(root, ".cuda", "lib64", "libnvrtc.so.13")
	if err := os.MkdirAll(filepath.Dir(want), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(want, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv(Env, "")
	if got := candidates(filepath.Join(root, "bin", "epbench-compile")); !slices.Contains(got, want) {
		t.Errorf("candidates %q, want %s among them", got, want)
	}
	if got := candidates(""); slices.Contains(got, want) {
		t.Errorf("candidates %q of an unknown program", got)
	}
}
