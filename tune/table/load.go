package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/table/internal/strictjson"
)

// MaxTableBytes bounds the size of a table file; 10,000 rows take about 8 MB.
const MaxTableBytes = 64 << 20

// Load reads a table strictly: every field once, spelled exactly and within its
// bounds, no two rows over the same tokens of one key, and an id that matches the
// content. Errors are one line and name the line and the field. Memory stays within a
// small multiple of the input. A table of schema 1 comes back as schema 2, with the id
// of what it then says.
func Load(r io.Reader) (*Table, error) { return load(r, false) }

// LoadEdited reads a table whose content may not match its id. Such a table comes
// back with Header.Edited set and the ID of what it now says.
func LoadEdited(r io.Reader) (*Table, error) { return load(r, true) }

func load(r io.Reader, allowEdited bool) (*Table, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxTableBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxTableBytes {
		return nil, fmt.Errorf("the file is larger than %d MiB; split the table by op or ranks", MaxTableBytes>>20)
	}
	schema := schemaOf(data)
	t, err := parse(data, schema)
	if err != nil {
		return nil, err
	}
	var want string
	if schema == 1 {
		want = hash1(data, t.ID)
	} else if want, err = t.hash(); err != nil {
		return nil, err
	}
	switch {
	case t.ID == want && schema != 1:
		return t, nil
	case t.ID != want && !allowEdited:
		return nil, fmt.Errorf("id: the content hashes to %.12s, the table says %.12q; it was edited after it was written (--allow-edited takes it, marked)", want, t.ID)
	case t.ID != want:
		t.Header.Edited = true
	}
	return t, t.Seal()
}

// parse reads and checks everything but the id; rows come back sorted. Of a schema
// that this build does not know, nothing but the number is judged.
func parse(data []byte, schema int) (*Table, error) {
	t := &Table{Schema: schema}
	var err error
	switch schema {
	case 1:
		data, err = read1(data, t)
	case 0, Schema:
		err = strictjson.Unmarshal(data, t)
	}
	if err != nil {
		return nil, err
	}
	if err := t.Validate(); err != nil {
		path, _, _ := strings.Cut(err.Error(), ":")
		return nil, fmt.Errorf("line %d: %w", strictjson.Line(data, path), err)
	}
	slices.SortStableFunc(t.Rows, compareRows)
	return t, nil
}

// schemaOf is the value of a file's first field if that is its schema, else 0.
func schemaOf(data []byte) int {
	dec := json.NewDecoder(bytes.NewReader(data[:min(len(data), 256)]))
	for i := range 3 {
		tok, err := dec.Token()
		if err != nil || i == 1 && tok != "schema" {
			return 0
		}
		if n, ok := tok.(float64); ok && i == 2 {
			return int(n)
		}
	}
	return 0
}
