package record

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDirCutsBackToWholeBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "run")
	d := createDir(t, path, &Run{Tool: "test"})
	for range 2 {
		if err := d.Append([]Result{sample(0, 1), sample(0, 1)}, 0.5); err != nil {
			t.Fatal(err)
		}
	}
	d.Close()
	log := filepath.Join(path, TrialsFile)
	whole, _ := os.ReadFile(log)
	half := bytes.Index(whole[bytes.IndexByte(whole, '\n')+1:], []byte("\n")) // in the second line
	for _, cut := range []int{0, 10, half, len(whole) / 2, len(whole) - 1, len(whole)} {
		os.WriteFile(log, whole[:cut], 0o666)
		d, run, results, _, err := OpenDir(path)
		if err != nil {
			t.Fatal(err)
		}
		if run.Tool != "test" || len(results)%2 != 0 {
			t.Errorf("cut at %d: %d results of run %q", cut, len(results), run.Tool)
		}
		if err := d.Append([]Result{sample(0, 1)}, 1); err != nil {
			t.Fatal(err)
		}
		d.Close()
		if _, got, warn, err := ReadDir(path); err != nil || warn != nil || len(got) != len(results)+1 || got[len(got)-1].Seq != len(results) {
			t.Errorf("cut at %d, appended: %d results, %v, %v", cut, len(got), warn, err)
		}
	}
}

func TestDirRefuses(t *testing.T) {
	path := t.TempDir()
	if _, _, _, _, err := OpenDir(path); err == nil || !strings.Contains(err.Error(), "not a run directory") {
		t.Errorf("an empty directory was opened: %v", err)
	}
	d := createDir(t, path, &Run{})
	if _, err := CreateDir(path, &Run{}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("two writers: %v", err)
	}
	d.Close()
	if _, err := CreateDir(path, &Run{}); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("a second run in one directory: %v", err)
	}
	os.WriteFile(filepath.Join(path, RunFile), []byte(`{"schema":1,"schema":1}`), 0o666)
	if _, _, _, err := ReadDir(path); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a doubled field in run.json: %v", err)
	}
}

func TestWriteFileKeepsTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write := func(text string, err error) error {
		return WriteFile(path, Content(func(w io.Writer) error {
			io.WriteString(w, text)
			return err
		}))
	}
	if err := write("old", nil); err != nil {
		t.Fatal(err)
	}
	if err := write("new", errors.New("disk full")); err == nil {
		t.Error("the error was not returned")
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if got, _ := os.ReadFile(path); string(got) != "old" || len(left) != 0 {
		t.Errorf("file holds %q, left behind %v", got, left)
	}
	if err := WriteFile(filepath.Join(path, "below"), Content(nil)); err == nil || strings.Contains(err.Error(), ".below.") {
		t.Errorf("a path below a file: %v", err)
	}
}

func TestDiscard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	for range 2 {
		d := createDir(t, path, &Run{})
		if err := d.Discard(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind: %v", path, err)
		}
	}
	d := createDir(t, path, &Run{})
	if err := d.Append([]Result{sample(0, 1)}, 1); err != nil {
		t.Fatal(err)
	}
	if err := d.Discard(); err != nil {
		t.Fatal(err)
	}
	if _, results, _, err := ReadDir(path); err != nil || len(results) != 1 {
		t.Errorf("Discard removed measurements: %d results, %v", len(results), err)
	}
}

func createDir(t *testing.T, path string, run *Run) *Dir {
	t.Helper()
	d, err := CreateDir(path, run)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
