package table

import (
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
// multiple of the input.
func Load(r io.Reader) (*Table, error) {
	t, err := parse(r)
	if err != nil {
		return nil, err
	}
	want, err := t.hash()
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
	t, err := parse(r)
	if err != nil {
		return nil, err
	}
	id := t.ID
	if err := t.Seal(); err != nil || t.ID == id {
		return t, err
	}
	t.Header.Edited = true
	return t, t.Seal()
}

// parse reads and checks everything but the id; rows come back sorted.
func parse(r io.Reader) (*Table, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxTableBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxTableBytes {
		return nil, fmt.Errorf("the file is larger than %d MiB; split the table by op or ranks", MaxTableBytes>>20)
	}
	t := &Table{}
	l := loader{scanner: scanner{data: data}, fields: map[reflect.Type][]string{}}
	if err := l.value(reflect.ValueOf(t).Elem()); err != nil {
		return nil, err
	}
	if l.peek() != 0 || l.pos < len(data) {
		return nil, l.failf(l.pos, "something follows the table")
	}
	if a, b, found := t.overlap(); found {
		return nil, l.failf(l.rows[b], "%w", overlapError(t.Rows, a, b))
	}
	slices.SortStableFunc(t.Rows, compareRows)
	return t, nil
}
