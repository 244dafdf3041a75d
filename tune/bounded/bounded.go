// Package bounded limits the memory and the work for reading one file, because a small file could unpack to huge data.
package bounded

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
)

// The memory limit is the file's size multiplied by memoryTimes, or leastMemory if that is larger. The limit of
// unpacked bytes is the file's size multiplied by workTimes, or leastWork if that is larger.
const (
	leastMemory = 96 << 20
	memoryTimes = 3
	leastWork   = 128 << 20
	workTimes   = 64
)

// ObjectBytes is the memory that is charged for one small value.
const ObjectBytes = 64

// A Budget holds the memory and the work that are left for reading one file. Only one goroutine may use it.
type Budget struct {
	file         int64 // bytes
	memory, work int64 // what is left, in bytes
}

// New returns the budget for a file of `file` bytes.
func New(file int64) *Budget {
	file = max(file, 0)
	return &Budget{file: file, memory: max(leastMemory, times(file, memoryTimes)), work: max(leastWork, times(file, workTimes))}
}

func times(n, by int64) int64 {
	if n > math.MaxInt64/by {
		return math.MaxInt64
	}
	return n * by
}

// ForFile returns the budget for an open file.
func ForFile(f *os.File) (*Budget, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return New(info.Size()), nil
}

// Allocate takes memory from the budget. `what` names the part of the file in the error.
func (b *Budget) Allocate(what string, bytes int64) error {
	if bytes < 0 || bytes > b.memory {
		return fmt.Errorf("%s: more memory than is allowed for a file of %s; the limit is %s", what, size(b.file), size(max(leastMemory, times(b.file, memoryTimes))))
	}
	b.memory -= bytes
	return nil
}

// Array takes memory from the budget for n elements of elementBytes bytes each.
func (b *Budget) Array(what string, n, elementBytes int64) error {
	if n < 0 || elementBytes > 0 && n > math.MaxInt64/elementBytes {
		n, elementBytes = math.MaxInt64, 1
	}
	return b.Allocate(what, n*elementBytes)
}

// JSON takes from the budget the memory that may be needed to decode a JSON text.
func (b *Budget) JSON(what string, text []byte) error {
	n := 4*bytes.Count(text, []byte("{")) + bytes.Count(text, []byte("[")) + bytes.Count(text, []byte(","))
	return b.Array(what, int64(n), ObjectBytes)
}

// Free gives memory back to the budget.
func (b *Budget) Free(bytes int64) { b.memory += bytes }

// Work takes unpacked bytes from the budget.
func (b *Budget) Work(what string, bytes int64) error {
	if bytes < 0 || bytes > b.work {
		return fmt.Errorf("%s: unpacks to more than %s, and the file has %s; write it without compression",
			what, size(max(leastWork, times(b.file, workTimes))), size(b.file))
	}
	b.work -= bytes
	return nil
}

// Reader returns a reader that reads from r and passes the number of bytes to Work.
func (b *Budget) Reader(what string, r io.Reader) io.Reader { return &reader{b, what, r} }

type reader struct {
	budget *Budget
	what   string
	in     io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	if bad := r.budget.Work(r.what, int64(n)); bad != nil {
		return 0, bad
	}
	return n, err
}

const firstRead = 64 << 10

// ReadAll reads all of r. It returns an error if r has more than `most` bytes.
func (b *Budget) ReadAll(what string, r io.Reader, most int64) ([]byte, error) {
	out := []byte{}
	for {
		if len(out) == cap(out) {
			next := min(max(firstRead, 2*int64(cap(out))), most+1)
			if err := b.Allocate(what, next); err != nil {
				return nil, err
			}
			grown := make([]byte, len(out), next)
			copy(grown, out)
			b.Free(int64(cap(out)))
			out = grown
		}
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		switch {
		case int64(len(out)) > most:
			return nil, fmt.Errorf("%s: larger than %s", what, size(most))
		case err == io.EOF:
			return out, nil
		case err != nil:
			return nil, err
		}
	}
}

func size(n int64) string {
	for _, u := range []struct {
		unit string
		at   int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= 10*u.at || n >= u.at && n%u.at == 0 {
			return fmt.Sprintf("%d %s", n/u.at, u.unit)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
