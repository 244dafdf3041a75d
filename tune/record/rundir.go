package record

import (
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

	"github.com/epbench/epbench/tune/ep"
)

const lockFile = ".lock"

// Dir is a run directory that one process has open for writing.
type Dir struct {
	path  string
	lock  *os.File
	log   *os.File
	seq   int   // Seq of the next line
	whole int64 // bytes of the log's whole blocks
}

// CreateDir makes a run directory. It refuses a directory that has a log.
func CreateDir(path string, run *Run) (*Dir, error) {
	if err := os.MkdirAll(filepath.Join(path, PlotsDir), 0o777); err != nil {
		return nil, err
	}
	d, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	// run.json is written before the log. So each directory with a log also has run.json, and can be resumed.
	log := filepath.Join(path, TrialsFile)
	if _, err = os.Stat(log); err == nil {
		err = fmt.Errorf("%s already holds a run; continue it with --resume %s or choose another --out", path, ep.Quote(path))
	} else if err = d.WriteRun(run); err == nil {
		d.log, err = os.OpenFile(log, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o666)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// OpenDir opens a run directory to continue the run. It cuts off an unfinished block of `cut` bytes.
func OpenDir(path string) (d *Dir, run *Run, results []Result, cut int64, err error) {
	if _, err := os.Stat(filepath.Join(path, RunFile)); err != nil {
		return nil, nil, nil, 0, notRun(path, err)
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

func (d *Dir) reopen() (run *Run, results []Result, cut int64, err error) {
	if run, err = ReadRun(d.path); err != nil {
		return nil, nil, 0, err
	}
	if d.log, err = os.OpenFile(filepath.Join(d.path, TrialsFile), os.O_CREATE|os.O_RDWR, 0o666); err != nil {
		return nil, nil, 0, err
	}
	results, cut, err = d.rewind()
	return run, results, cut, err
}

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

func (d *Dir) cut() error {
	if err := d.log.Truncate(d.whole); err != nil {
		return err
	}
	_, err := d.log.Seek(d.whole, io.SeekStart)
	return err
}

// Append writes the lines of one block, and sets their Seq, Time, Wall and End. If the write fails, it cuts the log
// back to the previous block.
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
		return errors.Join(fmt.Errorf("%s: %w; earlier measurements are kept: make room, then sweep --resume %s", TrialsFile, err, ep.Quote(d.path)), d.cut())
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

// WriteFile replaces a file of the directory.
func (d *Dir) WriteFile(name string, content io.WriterTo) error {
	return WriteFile(filepath.Join(d.path, name), content)
}

// Path returns the directory's path.
func (d *Dir) Path() string { return d.path }

// Results returns the number of lines in the log.
func (d *Dir) Results() int { return d.seq }

// Discard closes the directory, and removes it if nothing was measured.
func (d *Dir) Discard() error {
	if d.seq > 0 {
		return d.Close()
	}
	for _, name := range []string{TrialsFile, RunFile, PlotsDir, lockFile, "."} {
		os.Remove(filepath.Join(d.path, name))
	}
	return d.Close()
}

// Close flushes the log to the disk and releases the lock.
func (d *Dir) Close() error {
	var err error
	if d.log != nil {
		err = errors.Join(d.log.Sync(), d.log.Close())
	}
	return errors.Join(err, d.lock.Close())
}

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

// ReadDir reads a run directory without a lock. It returns a warning about an unfinished last line.
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

// HashLog returns the SHA-256 of the log, in hex.
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

// CheckLog returns an error if the log of a finished run does not have this hash.
func CheckLog(path string, run *Run, hash string) error {
	got, err := HashLog(path)
	if err != nil || got == hash || run.Finished.IsZero() {
		return err
	}
	return fmt.Errorf("%s: %s changed after %s was made from it, so the two do not fit together; sweep again", path, TrialsFile, TableFile)
}

const maxRunFile = 64 << 20

// notRun explains why a run.json cannot be opened.
func notRun(path string, err error) error {
	switch {
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%s is a file, not a run directory; give the directory that epbench sweep -o made", path)
	case errors.Is(err, fs.ErrNotExist):
		err = ep.FileError(path, err, fmt.Sprintf("epbench sweep -o %s makes one", ep.Quote(path)))
		return fmt.Errorf("%s is not a run directory: %w", path, err)
	}
	return err
}

// ReadRun reads the run.json of a run directory.
func ReadRun(path string) (*Run, error) {
	f, err := os.Open(filepath.Join(path, RunFile))
	if err != nil {
		return nil, notRun(path, err)
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

func decodeRun(b []byte) (*Run, error) {
	var head struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("%w; without run.json the trials cannot be read: sweep again into another directory", plain(err))
	}
	switch {
	case head.Schema == 1:
		return nil, fmt.Errorf(oldSchema, head.Schema, Schema)
	case head.Schema != Schema:
		return nil, fmt.Errorf("schema %d, this version reads %d; use the epbench that wrote it", head.Schema, Schema)
	}
	run := &Run{}
	if err := plain(json.Unmarshal(b, run, strict)); err != nil {
		return nil, err
	}
	return run, run.check()
}
