package record

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"
)

// lockFile keeps a second writer out of a run directory.
const lockFile = ".lock"

// Dir is a run directory open for writing. One process at a time may hold it.
type Dir struct {
	path  string
	lock  *os.File
	log   *os.File
	seq   int   // of the next line
	whole int64 // bytes of the log that are whole blocks
}

// CreateDir makes a run directory and its parents, and opens every file that
// will be written: a bad path or a full disk then shows before anything is
// measured. A directory that already holds a log is refused.
func CreateDir(path string, run *Run) (*Dir, error) {
	if err := os.MkdirAll(filepath.Join(path, PlotsDir), 0o777); err != nil {
		return nil, err
	}
	d, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	// The log comes last: where it is, run.json is, and the run can be resumed.
	log := filepath.Join(path, TrialsFile)
	if _, err = os.Stat(log); err == nil {
		err = fmt.Errorf("%s already holds a run; continue it with --resume %s or choose another --out", path, path)
	} else if err = d.WriteRun(run); err == nil {
		d.log, err = os.OpenFile(log, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o666)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// OpenDir opens a run directory to go on with it. Lines after the last whole
// block are cut off, because rounds of a block belong together. cut is their
// length in bytes.
func OpenDir(path string) (d *Dir, run *Run, results []Result, cut int64, err error) {
	if _, err := os.Stat(filepath.Join(path, RunFile)); err != nil {
		return nil, nil, nil, 0, fmt.Errorf("%s is no run directory: %w", path, err)
	}
	if d, err = lockDir(path); err != nil {
		return nil, nil, nil, 0, err
	}
	if run, results, cut, err = d.reopen(); err != nil {
		d.Close()
		return nil, nil, nil, 0, err
	}
	return d, run, results, cut, nil
}

// reopen reads run.json and opens the log behind its last whole block.
func (d *Dir) reopen() (run *Run, results []Result, cut int64, err error) {
	if run, err = ReadRun(d.path); err != nil {
		return nil, nil, 0, err
	}
	if run.Read != Schema {
		return nil, nil, 0, fmt.Errorf("%s: %w", d.path, errSchema1)
	}
	if d.log, err = os.OpenFile(filepath.Join(d.path, TrialsFile), os.O_CREATE|os.O_RDWR, 0o666); err != nil {
		return nil, nil, 0, err
	}
	results, cut, err = d.rewind()
	return run, results, cut, err
}

// rewind reads the log and truncates it to its last whole block.
func (d *Dir) rewind() (results []Result, cut int64, err error) {
	in := NewReader(d.log)
	var whole []Result
	for {
		var r Result
		err := in.Read(&r)
		if err == io.EOF {
			break
		}
		if err == nil && r.Seq != len(results) {
			err = fmt.Errorf("%s: line %d: seq is %d, want %d", TrialsFile, in.line, r.Seq, len(results))
		}
		if err != nil {
			return nil, 0, err
		}
		if results = append(results, r); r.End {
			whole, d.whole = results, in.Offset()
		}
	}
	size, err := d.log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, err
	}
	d.seq = len(whole)
	return whole, size - d.whole, d.cut()
}

// cut truncates the log to its whole blocks.
func (d *Dir) cut() error {
	if err := d.log.Truncate(d.whole); err != nil {
		return err
	}
	_, err := d.log.Seek(d.whole, io.SeekStart)
	return err
}

// Append writes the lines of one block, stamping Seq, Time, Wall and End. The
// block reaches the file in one write; if that fails the file is cut back to
// the block before, so that a full disk leaves a log that can be resumed.
func (d *Dir) Append(block []Result, wall float64) error {
	var buf []byte
	now := time.Now()
	for i := range block {
		block[i].Seq, block[i].Time = d.seq+i, now
		block[i].Wall, block[i].End = wall, i == len(block)-1
		var err error
		if buf, err = block[i].AppendJSON(buf); err != nil {
			return err
		}
	}
	if _, err := d.log.Write(buf); err != nil {
		return errors.Join(fmt.Errorf("%s: %w; what was measured before is kept: make room, then sweep --resume %s", TrialsFile, err, d.path), d.cut())
	}
	d.seq += len(block)
	d.whole += int64(len(buf))
	return nil
}

// WriteRun replaces run.json.
func (d *Dir) WriteRun(run *Run) error {
	run.Schema = Schema
	return d.WriteFile(RunFile, Content(func(w io.Writer) error {
		return json.MarshalWrite(w, run, jsontext.WithIndent("  "), json.Deterministic(true))
	}))
}

// WriteFile replaces a file of the directory, see WriteFile.
func (d *Dir) WriteFile(name string, content io.WriterTo) error {
	return WriteFile(filepath.Join(d.path, name), content)
}

// Content makes a function one that WriteFile takes.
type Content func(io.Writer) error

// WriteTo implements io.WriterTo. It does not count bytes.
func (c Content) WriteTo(w io.Writer) (int64, error) { return 0, c(w) }

// WriteFile replaces the file at path, so that a reader sees the old file or the
// new one and never a part: a temporary file beside it, synced, then renamed. A
// link is followed. A device or a pipe is written to and not replaced.
func WriteFile(path string, content io.WriterTo) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil { // a new file, or a link to one
		real = path
	}
	if info, stat := os.Lstat(real); stat == nil && !info.Mode().IsRegular() {
		err = writeThrough(real, content)
	} else {
		err = replace(real, content)
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // the temporary name helps nobody
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

func replace(path string, content io.WriterTo) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	if _, err = content.WriteTo(w); err == nil {
		err = errors.Join(w.Flush(), f.Chmod(0o644), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Path is where the directory lies.
func (d *Dir) Path() string { return d.path }

// Results is how many lines the log has.
func (d *Dir) Results() int { return d.seq }

// Discard closes a directory in which nothing was measured and removes what
// CreateDir made, so that the corrected command may use the same path.
func (d *Dir) Discard() error {
	if d.seq > 0 {
		return d.Close()
	}
	for _, name := range []string{TrialsFile, RunFile, PlotsDir, lockFile, "."} {
		os.Remove(filepath.Join(d.path, name)) // a directory goes only if it is empty
	}
	return d.Close()
}

// Close flushes the log to the disk and lets the next writer in.
func (d *Dir) Close() error {
	var err error
	if d.log != nil {
		err = errors.Join(d.log.Sync(), d.log.Close())
	}
	return errors.Join(err, d.lock.Close())
}

// lockDir takes the lock, which dies with the process.
func lockDir(path string) (*Dir, error) {
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s is in use by another epbench: %w", path, err)
	}
	return &Dir{path: path, lock: f}, nil
}

// ReadDir reads a run directory, finished or not, without locking it. A torn
// last line is a warning.
func ReadDir(path string) (run *Run, results []Result, warnings []error, err error) {
	if run, err = ReadRun(path); err != nil {
		return nil, nil, nil, err
	}
	f, err := os.Open(filepath.Join(path, TrialsFile))
	if err != nil {
		return nil, nil, nil, err
	}
	defer f.Close()
	results, torn, err := ReadAll(f)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if torn != nil {
		warnings = append(warnings, fmt.Errorf("%s: %w", path, torn))
	}
	return run, results, warnings, nil
}

// HashLog is the SHA-256 of the trial log of a run directory, in hex. A table
// holds that of the log it was made from.
func HashLog(path string) (string, error) {
	f, err := os.Open(filepath.Join(path, TrialsFile))
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// CheckLog reports a log that changed after a table was made from it. While a
// run is not finished its log grows, and nothing can be said.
func CheckLog(path string, run *Run, hash string) error {
	got, err := HashLog(path)
	if err != nil || got == hash || run.Finished.IsZero() {
		return err
	}
	return fmt.Errorf("%s: %s changed after %s was made from it: their evidence differs; sweep again", path, TrialsFile, TableFile)
}

// maxRunFile bounds run.json.
const maxRunFile = 64 << 20

// ReadRun reads the run.json of a run directory, and nothing else of it.
func ReadRun(path string) (*Run, error) {
	f, err := os.Open(filepath.Join(path, RunFile))
	if errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("%s is a file and no run directory; give the directory that epbench sweep -o made", path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is no run directory: %w; epbench sweep -o %s makes one", path, err, path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRunFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxRunFile {
		return nil, fmt.Errorf("%s: larger than %d MiB", f.Name(), maxRunFile>>20)
	}
	run, err := decodeRun(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return run, nil
}

// decodeRun reads run.json of any schema this version knows.
func decodeRun(b []byte) (*Run, error) {
	var head struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("%w; without it the trials cannot be read: sweep again into another directory", plain(err))
	}
	run := &Run{Read: head.Schema}
	var err error
	switch head.Schema {
	case 1:
		err = run.decode1(b)
	case Schema:
		err = plain(json.Unmarshal(b, run, strict))
	default:
		err = fmt.Errorf("schema %d, this version reads 1 and %d", head.Schema, Schema)
	}
	if err == nil {
		err = run.check()
	}
	return run, err
}
