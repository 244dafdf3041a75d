package record

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// Content adapts a function to WriteFile.
type Content func(io.Writer) error

// WriteTo implements io.WriterTo. The count is always 0.
func (c Content) WriteTo(w io.Writer) (int64, error) { return 0, c(w) }

// WriteFile replaces the file at path. A reader sees the whole old file or the whole new file. WriteFile keeps
// permissions, follows a link, and writes into a device or a pipe.
func WriteFile(path string, content io.WriterTo) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	info, stat := os.Lstat(real)
	if stat == nil && !info.Mode().IsRegular() {
		err = writeThrough(real, content)
	} else {
		err = replace(real, info, content)
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // without the temporary name
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func writeThrough(path string, content io.WriterTo) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	_, err = content.WriteTo(f)
	return errors.Join(err, f.Close())
}

func replace(path string, old fs.FileInfo, content io.WriterTo) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".")
	RemoveStale(temp + "????????.tmp")
	f, err := os.OpenFile(fmt.Sprintf("%s%08x.tmp", temp, rand.Uint32()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if old != nil {
		err = f.Chmod(old.Mode().Perm())
	}
	w := bufio.NewWriter(f)
	if err == nil {
		_, err = content.WriteTo(w)
	}
	if err == nil {
		err = errors.Join(w.Flush(), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

const staleAfter = time.Hour

// RemoveStale removes the temporary files and folders that match a pattern of filepath.Glob and that killed processes
// left.
func RemoveStale(pattern string) {
	names, _ := filepath.Glob(pattern)
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.RemoveAll(name)
		}
	}
}
