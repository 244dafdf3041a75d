//go:build unix

package record

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDirSurvivesAFullDisk: Append removes a block that does not fit.
func TestDirSurvivesAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	d := createDir(t, path, &Run{})
	defer d.Close()
	block := []Result{sample(0, 20), sample(0, 20)}
	if err := d.Append(block, 1); err != nil {
		t.Fatal(err)
	}
	if err := full(t, uint64(d.whole+d.whole/2), func() error { return d.Append(block, 1) }); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("the error of a full disk is %v", err)
	}
	if _, results, torn, err := ReadDir(path); err != nil || torn != nil || len(results) != 2 {
		t.Errorf("after the full disk the log holds %d results, %v, %v", len(results), torn, err)
	}
	if err := d.Append(block, 1); err != nil {
		t.Fatal(err)
	}
	if _, results, _, err := ReadDir(path); err != nil || len(results) != 4 || results[3].Seq != 3 {
		t.Errorf("with room again the log holds %d results, %v", len(results), err)
	}
}

// full calls `do` with files limited to `size` bytes.
func full(t *testing.T, size uint64, do func() error) error {
	t.Helper()
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: old.Max}); err != nil {
		t.Skip(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_FSIZE, &old)
	return do()
}

func TestWriteFileFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	hello := Content(func(w io.Writer) error {
		_, err := io.WriteString(w, "hello")
		return err
	})
	for name, target := range map[string]string{"link": "file", "dangling": "new", "null": "/dev/null"} {
		if err := os.Symlink(target, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("file"), []byte("a longer text than hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "dangling", "null"} {
		if err := WriteFile(at(name), hello); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Lstat(at(name)); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is not a link any more: %v", name, err)
		}
	}
	for _, name := range []string{"file", "new"} {
		if got, err := os.ReadFile(at(name)); string(got) != "hello" {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	if err := unix.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	read := make(chan string)
	go func() {
		got, _ := os.ReadFile(at("pipe"))
		read <- string(got)
	}()
	if err := WriteFile(at("pipe"), hello); err != nil {
		t.Error(err)
	}
	if got := <-read; got != "hello" {
		t.Errorf("the pipe carried %q", got)
	}
}

func TestWriteFilePermissions(t *testing.T) {
	dir := t.TempDir()
	hello := Content(func(w io.Writer) error {
		_, err := io.WriteString(w, "hello")
		return err
	})
	defer unix.Umask(unix.Umask(0o077))
	for name, mode := range map[string]os.FileMode{"new": 0o600, "old": 0o640} {
		path := filepath.Join(dir, name)
		if name == "old" {
			if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, mode)); err != nil {
				t.Fatal(err)
			}
		}
		if err := WriteFile(path, hello); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, mode)
		}
	}
}

func TestStaleFilesGo(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{".f.0123abcd.tmp": 2 * staleAfter, ".f.0123abce.tmp": 0, ".g.0123abcd.tmp": 2 * staleAfter, ".f.mine": 2 * staleAfter} {
		path := filepath.Join(dir, name)
		then := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteFile(filepath.Join(dir, "f"), Content(func(io.Writer) error { return nil })); err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{".f.0123abce.tmp", ".f.mine", ".g.0123abcd.tmp", "f"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("%q, %v, want %q", left, err, want)
	}
}
