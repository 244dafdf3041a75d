package trace

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestNumPyReadsOurs checks that NumPy and this package read each other's files.
func TestNumPyReadsOurs(t *testing.T) {
	python := os.Getenv("EPBENCH_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import numpy").CombinedOutput(); err != nil {
		t.Skipf("%s has no NumPy; set EPBENCH_PYTHON to a Python that has it: %.100s", python, out)
	}
	dir := t.TempDir()
	ids, ws := []int32{3, 1, 2, -1, 0, 65535}, []float32{.5, .25, .25, 0, 1, 0}
	for _, ext := range []string{".npy", ".npz"} {
		w, err := Create(filepath.Join(dir, "ours"+ext), 2, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(ids, ws); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	script := `
import numpy as np
want = np.array([[3, 1], [2, -1], [0, 65535]], dtype=np.int32)
a, z = np.load("ours.npy"), np.load("ours.npz")
assert a.dtype == np.int32 and (a == want).all(), a
assert (z["topk_ids"] == want).all() and z["topk_weights"].dtype == np.float32
assert (z["topk_weights"] == np.array([[.5, .25], [.25, 0], [1, 0]])).all()
for i, t in enumerate(["<i4", ">i4", "<i8", ">i8", "<i2"]):
    np.save(f"numpy{i}.npy", want[:2].astype(t))
np.savez_compressed("numpy5.npz", topk_ids=want[:2], topk_weights=z["topk_weights"][:2].astype(np.float16))
`
	cmd := exec.Command(python, "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, f := range []string{"numpy0.npy", "numpy1.npy", "numpy2.npy", "numpy3.npy", "numpy4.npy", "numpy5.npz"} {
		got, w, err := readAll(t, filepath.Join(dir, f), noLayer)
		if err != nil || len(got) != 4 || got[0] != 3 || got[3] != -1 {
			t.Errorf("%s: %v, %v", f, got, err)
		}
		if f == "numpy5.npz" && (len(w) != 4 || w[1] != 0.25) {
			t.Errorf("%s: weights %v", f, w)
		}
	}
}
