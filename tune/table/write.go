package table

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// Seal brings a table into canonical form: rows sorted by key and tokens,
// times in UTC and whole seconds, and the ID set to the content's hash.
func (t *Table) Seal() error {
	t.Header.Created = t.Header.Created.UTC().Truncate(time.Second)
	for i := range t.Rows {
		t.Rows[i].Evidence.Date = t.Rows[i].Evidence.Date.UTC().Truncate(time.Second)
	}
	slices.SortStableFunc(t.Rows, compareRows)
	if err := t.Validate(); err != nil {
		return err
	}
	id, err := t.hash()
	t.ID = id
	return err
}

// WriteTo seals the table and writes its canonical JSON: the header on one
// line and each row on one, so that a diff shows rows. A table that Load would
// refuse is an error before anything is written.
func (t *Table) WriteTo(w io.Writer) (int64, error) {
	if err := t.Seal(); err != nil {
		return 0, err
	}
	counted := &countWriter{w: w}
	err := t.encode(counted, t.ID)
	return counted.n, err
}

// hash is the sha256, in hex, of the canonical JSON with an empty id.
func (t *Table) hash() (string, error) {
	h := sha256.New()
	if err := t.encode(h, ""); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (t *Table) encode(w io.Writer, id string) error {
	e := &encoder{w: w}
	header := t.Header
	header.Fallback = filled(header.Fallback)
	e.text("{\n\"schema\": ")
	e.json(t.Schema)
	e.text(",\n\"id\": ")
	e.json(id)
	e.text(",\n\"header\": ")
	e.json(header)
	e.text(",\n\"rows\": [")
	for i, r := range t.Rows {
		r.Evidence.Routings = filled(r.Evidence.Routings)
		r.Evidence.Tokens = filled(r.Evidence.Tokens)
		if r.Config.Values == nil {
			r.Config.Values = map[string]ep.Value{}
		}
		e.text([]string{",\n", "\n"}[bit(i == 0)])
		e.json(r)
	}
	e.text("\n]\n}\n")
	return e.err
}

// filled keeps a nil slice from being written as null.
func filled[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// encoder writes JSON values one after another and remembers the first error.
type encoder struct {
	w   io.Writer
	buf bytes.Buffer
	err error
}

func (e *encoder) text(s string) {
	if e.err == nil {
		_, e.err = io.WriteString(e.w, s)
	}
}

func (e *encoder) json(v any) {
	if e.err != nil {
		return
	}
	e.buf.Reset()
	enc := json.NewEncoder(&e.buf)
	enc.SetEscapeHTML(false)
	if e.err = enc.Encode(v); e.err == nil {
		_, e.err = e.w.Write(bytes.TrimSuffix(e.buf.Bytes(), []byte("\n")))
	}
}

type countWriter struct {
	w io.Writer
	n int64
}

func (c *countWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// WriteFile writes content to path so that a reader sees the old file or the
// new one and never a part: a temporary file beside it, synced, then renamed.
func WriteFile(path string, content io.WriterTo) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("%s: %w", path, errors.Unwrap(err)) // the temporary name helps nobody
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = content.WriteTo(f); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
