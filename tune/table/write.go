package table

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// Seal sorts rows, rounds dates down to seconds in UTC, and sets the ID.
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

// WriteTo seals the table and writes its canonical JSON, one line for each row. If Load would refuse the table, WriteTo
// writes nothing.
func (t *Table) WriteTo(w io.Writer) (int64, error) {
	if err := t.Seal(); err != nil {
		return 0, err
	}
	text, err := t.encode(t.ID)
	if err != nil {
		return 0, err
	}
	n, err := w.Write(text)
	return int64(n), err
}

// hash returns the SHA-256, in hex, of the canonical JSON with an empty id.
func (t *Table) hash() (string, error) {
	text, err := t.encode("")
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

func (t *Table) encode(id string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	header := t.Header
	header.Fallback = append([]string{}, header.Fallback...)
	fmt.Fprintf(&b, "{\n\"schema\": %d,\n\"id\": %q,\n\"header\": ", t.Schema, id)
	err := enc.Encode(header)
	b.Truncate(b.Len() - 1) // Encode ends with a newline
	b.WriteString(",\n\"rows\": [\n")
	for i, r := range t.Rows {
		r.Evidence.Routings = append([]string{}, r.Evidence.Routings...)
		r.Evidence.Tokens = append([]int{}, r.Evidence.Tokens...)
		if r.Config.Values == nil {
			r.Config.Values = map[string]ep.Value{}
		}
		err = errors.Join(err, enc.Encode(r))
		if i < len(t.Rows)-1 {
			b.Truncate(b.Len() - 1)
			b.WriteString(",\n")
		}
	}
	b.WriteString("]\n}\n")
	return b.Bytes(), err
}
