package trace

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Writer writes a trace of ids.
type Writer interface {
	// Write appends rows: ids [n*k] and weights [n*k] or nil.
	Write(ids []int32, weights []float32) error
	// Close completes the file.
	Close() error
}

// Create makes a file for rows of k ids. The extension decides the format: .npy (ids only), .npz
// (topk_ids and topk_weights), .csv or .jsonl.
func Create(path string, k int, weights bool) (Writer, error) {
	create := map[string]func(f *os.File, k int, weights bool) (Writer, error){
		".npy": createNPY, ".npz": createNPZ, ".csv": createCSV, ".jsonl": createJSONL,
	}[strings.ToLower(filepath.Ext(path))]
	if create == nil {
		return nil, fmt.Errorf("%s: write .npy, .npz, .csv or .jsonl", path)
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	w, err := create(f, k, weights)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return w, nil
}

type npyWriter struct {
	f     *os.File
	buf   *bufio.Writer
	descr string
	k     int
	rows  int64
}

func createNPY(f *os.File, k int, _ bool) (Writer, error) { return newNPY(f, "<i4", k), nil }

// newNPY ignores write errors, because bufio returns them from Flush.
func newNPY(f *os.File, descr string, k int) *npyWriter {
	w := &npyWriter{f: f, buf: bufio.NewWriterSize(f, 1<<18), descr: descr, k: k}
	_ = writeNPYHeader(w.buf, descr, 0, k)
	return w
}

func (w *npyWriter) Write(ids []int32, weights []float32) error {
	w.rows += int64(len(ids) / w.k)
	if w.descr == "<f4" {
		for _, v := range weights {
			w.word(math.Float32bits(v))
		}
		return nil
	}
	for _, e := range ids {
		w.word(uint32(e))
	}
	return nil
}

func (w *npyWriter) word(v uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	w.buf.Write(b[:])
}

func (w *npyWriter) Close() error { return errors.Join(w.finish(), w.f.Close()) }

func (w *npyWriter) finish() error {
	if err := w.buf.Flush(); err != nil {
		return err
	}
	return writeNPYHeader(io.NewOffsetWriter(w.f, 0), w.descr, w.rows, w.k)
}

// npzWriter writes arrays to temporary files, because a zip is written one member at a time.
type npzWriter struct {
	out    *os.File
	arrays []*npyWriter // ids, then weights if any
}

func createNPZ(f *os.File, k int, weights bool) (Writer, error) {
	z := &npzWriter{out: f}
	descrs := []string{"<i4", "<f4"}
	if !weights {
		descrs = descrs[:1]
	}
	for _, descr := range descrs {
		temp, err := os.CreateTemp(filepath.Dir(f.Name()), ".epbench-*")
		if err != nil {
			z.drop()
			return nil, err
		}
		_ = os.Remove(temp.Name()) // now, so that a crash leaves no file; if Windows refuses, drop removes it later
		z.arrays = append(z.arrays, newNPY(temp, descr, k))
	}
	return z, nil
}

func (z *npzWriter) Write(ids []int32, weights []float32) (err error) {
	for _, a := range z.arrays {
		err = errors.Join(err, a.Write(ids, weights))
	}
	return err
}

func (z *npzWriter) Close() error {
	zw := zip.NewWriter(z.out)
	var err error
	for i, a := range z.arrays {
		err = errors.Join(err, z.member(zw, []string{"topk_ids.npy", "topk_weights.npy"}[i], a))
	}
	z.drop()
	return errors.Join(err, zw.Close(), z.out.Close())
}

func (z *npzWriter) drop() {
	for _, a := range z.arrays {
		a.f.Close()
		os.Remove(a.f.Name())
	}
}

func (z *npzWriter) member(zw *zip.Writer, name string, a *npyWriter) error {
	if err := a.finish(); err != nil {
		return err
	}
	if _, err := a.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	m, err := zw.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
	if err != nil {
		return err
	}
	_, err = io.Copy(m, a.f)
	return err
}

type textWriter struct {
	f    *os.File
	buf  *bufio.Writer
	k    int
	line func(b []byte, ids []int32, weights []float32) []byte
	row  []byte
}

func (w *textWriter) Write(ids []int32, weights []float32) error {
	for i := 0; i < len(ids); i += w.k {
		var ws []float32
		if len(weights) > 0 {
			ws = weights[i : i+w.k]
		}
		w.row = w.line(w.row[:0], ids[i:i+w.k], ws)
		w.buf.Write(w.row)
	}
	return nil
}

func (w *textWriter) Close() error { return errors.Join(w.buf.Flush(), w.f.Close()) }

func createCSV(f *os.File, k int, weights bool) (Writer, error) {
	w := &textWriter{f: f, buf: bufio.NewWriter(f), k: k, line: csvLine}
	prefixes := []string{"e", "w"}
	if !weights {
		prefixes = prefixes[:1]
	}
	var head []string
	for _, prefix := range prefixes {
		for i := range k {
			head = append(head, prefix+strconv.Itoa(i))
		}
	}
	_, err := fmt.Fprintln(w.buf, strings.Join(head, ","))
	return w, err
}

func csvLine(b []byte, ids []int32, weights []float32) []byte {
	for _, e := range ids {
		b = append(strconv.AppendInt(b, int64(e), 10), ',')
	}
	for _, v := range weights {
		b = append(strconv.AppendFloat(b, float64(v), 'g', -1, 32), ',')
	}
	b[len(b)-1] = '\n'
	return b
}

func createJSONL(f *os.File, k int, _ bool) (Writer, error) {
	return &textWriter{f: f, buf: bufio.NewWriter(f), k: k, line: jsonLine}, nil
}

func jsonLine(b []byte, ids []int32, weights []float32) []byte {
	row, _ := json.Marshal(jsonRow{ids, weights}) // cannot fail
	return append(append(b, row...), '\n')
}

// WriteCounts writes counts as CSV with the header expert_id,count.
func WriteCounts(w io.Writer, counts []int64) error {
	b := []byte("expert_id,count\n")
	for e, n := range counts {
		b = fmt.Appendf(b, "%d,%d\n", e, n)
	}
	_, err := w.Write(b)
	return err
}
