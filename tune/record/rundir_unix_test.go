//go:build unix

package record

import (
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDirSurvivesAFullDisk bounds the size of files until a block does not fit:
// the log is cut back to the block before, and goes on when there is room.
func TestDirSurvivesAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	d, err := CreateDir(path, &Run{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	block := []Result{sample(0, 20), sample(0, 20)}
	if err := d.Append(block, 1); err != nil {
		t.Fatal(err)
	}
	if err := full(t, uint64(d.whole+d.whole/2), func() error { return d.Append(block, 1) }); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("a full disk reads %v", err)
	}
	if _, results, torn, err := ReadDir(path); err != nil || torn != nil || len(results) != 2 {
		t.Errorf("after it the log holds %d results, %v, %v", len(results), torn, err)
	}
	if err := d.Append(block, 1); err != nil {
		t.Fatal(err)
	}
	if _, results, _, err := ReadDir(path); err != nil || len(results) != 4 || results[3].Seq != 3 {
		t.Errorf("with room again the log holds %d results, %v", len(results), err)
	}
}

// full runs do while files may not grow beyond size bytes.
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
