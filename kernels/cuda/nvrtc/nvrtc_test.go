//go:build cuda || nvrtc

package nvrtc

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestCandidates: a program finds the libnvrtc in its repository and the one from pip.
func TestCandidates(t *testing.T) {
	t.Setenv(Env, "")
	for _, folder := range []string{".cuda/lib64", "lib/python3.12/site-packages/nvidia/cu13/lib",
		"lib/python3.10/dist-packages/nvidia/cuda_nvrtc/lib", "nvidia/cu13/lib"} {
		root := t.TempDir()
		want := filepath.Join(root, folder, "libnvrtc.so.13")
		if err := os.MkdirAll(filepath.Dir(want), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(want, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		same := func(path string) bool { return filepath.Clean(path) == want }
		if got := candidates(filepath.Join(root, "bin", "epbench-compile")); !slices.ContainsFunc(got, same) {
			t.Errorf("candidates %q, want %s among them", got, want)
		}
		if got := candidates(""); slices.ContainsFunc(got, same) {
			t.Errorf("candidates %q of an unknown program", got)
		}
	}
}
