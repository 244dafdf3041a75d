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
	text, schema := data, schemaOf(data)
	if schema == 1 {
		text = upgrade1(data)
	}
	t = &Table{Schema: schema}
	if schema == 0 || schema == 1 || schema == Schema { // of another, nothing else can be judged
		err = strictjson.Unmarshal(text, t)
	}
	if err == nil {
		err = locate(text, t.Validate())
	}
	if err != nil {
		return nil, "", err
	}
	slices.SortStableFunc(t.Rows, compareRows)
	if schema != 1 {
		hash, err = t.hash()
	} else if hash = hash1(data, t.ID); hash == t.ID {
		err = t.Seal() // the id of what it says in this schema
		hash = t.ID
	}
	return t, hash, err
}

// locate adds the line to a complaint that begins with a path.
func locate(data []byte, err error) error {
	if err == nil {
		return nil
	}
	path, _, _ := strings.Cut(err.Error(), ":")
	return fmt.Errorf("line %d: %w", strictjson.Line(data, path), err)
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
