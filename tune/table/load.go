package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
)

// MaxTableBytes bounds the size of a table file; 10,000 rows take about 8 MB.
const MaxTableBytes = 64 << 20

// Load reads a table strictly: every field present once and within its bounds,
// no field unknown, no two rows over the same tokens, and the content matching
// its id. Errors name the line and the field. Memory stays within a small
// multiple of the input. A table of schema 1 comes back as schema 2, with the ID
// of what it then says.
func Load(r io.Reader) (*Table, error) {
	t, want, err := parse(r)
	if err != nil {
		return nil, err
	}
	if t.ID != want {
		return nil, fmt.Errorf("id: the content hashes to %.12s, the table says %.12q; it was edited after it was written (--allow-edited takes it, marked)", want, t.ID)
	}
	return t, nil
}

// LoadEdited reads a table whose content may not match its id. Such a table
// comes back with Header.Edited set and the ID of what it now says.
func LoadEdited(r io.Reader) (*Table, error) {
	t, want, err := parse(r)
	if err != nil {
		return nil, err
	}
	if t.ID == want {
		return t, nil
	}
	t.Header.Edited = true
	return t, t.Seal()
}

// parse reads and checks everything but the id; rows come back sorted. hash is
// what the id should be.
func parse(r io.Reader) (t *Table, hash string, err error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxTableBytes+1))
	if err != nil {
		return nil, "", err
	}
	if len(data) > MaxTableBytes {
		return nil, "", fmt.Errorf("the file is larger than %d MiB; split the table by op or ranks", MaxTableBytes>>20)
	}
	l := loader{scanner: scanner{data: data}, fields: map[reflect.Type][]string{}}
	old := schemaOf(data) == 1
	if old {
		t, err = l.table1()
	} else {
		t = &Table{}
		err = l.value(reflect.ValueOf(t).Elem())
	}
	if err != nil {
		return nil, "", err
	}
	if l.peek() != 0 || l.pos < len(data) {
		return nil, "", l.failf(l.pos, "something follows the table")
	}
	if a, b, found := t.overlap(); found {
		return nil, "", l.failf(l.rows[b], "%w", overlapError(t.Rows, a, b))
	}
	slices.SortStableFunc(t.Rows, compareRows)
	if !old {
		hash, err = t.hash()
	} else if hash = hash1(data, t.ID); hash == t.ID {
		err = t.Seal() // gives it the id of what it says in this schema
		hash = t.ID
	}
	return t, hash, err
}

// schemaOf is the value of a file's first field if that is its schema, else 0.
func schemaOf(data []byte) (n float64) {
	dec := json.NewDecoder(bytes.NewReader(data[:min(len(data), 256)]))
	for i := range 3 {
		tok, err := dec.Token()
		if err != nil || i == 1 && tok != "schema" {
			return 0
		}
		n, _ = tok.(float64)
	}
	return n
}
