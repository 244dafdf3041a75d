package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/table/internal/strictjson"
)

// MaxTableBytes bounds a table file. 10,000 rows take about 8 MB.
const MaxTableBytes = 64 << 20

// Load reads a table. It refuses missing and repeated fields, overlapping rows, and an id that does not match the
// content. An error names the line and the field.
func Load(r io.Reader) (*Table, error) { return load(r, false) }

// LoadEdited reads a table even if the content does not match the id. In this case it sets Header.Edited.
func LoadEdited(r io.Reader) (*Table, error) { return load(r, true) }

func load(r io.Reader, allowEdited bool) (*Table, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxTableBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxTableBytes {
		return nil, fmt.Errorf("the file is larger than %d MiB; split the table by op or ranks", MaxTableBytes>>20)
	}
	t, err := parse(data)
	if err != nil {
		return nil, err
	}
	want, err := t.hash()
	switch {
	case err != nil:
		return nil, err
	case t.ID == want:
		return t, nil
	case !allowEdited:
		return nil, fmt.Errorf("id: the content hashes to %.12s, the table says %.12q; it was edited after it was written (--allow-edited loads it and marks it)", want, t.ID)
	}
	t.Header.Edited = true
	return t, t.Seal()
}

func parse(data []byte) (*Table, error) {
	t := &Table{Schema: schemaOf(data)}
	if t.Schema == 0 || t.Schema == Schema {
		if err := strictjson.Unmarshal(data, t); err != nil {
			return nil, err
		}
	}
	if err := t.Validate(); err != nil {
		path, _, _ := strings.Cut(err.Error(), ":")
		return nil, fmt.Errorf("line %d: %w", strictjson.Line(data, path), err)
	}
	slices.SortStableFunc(t.Rows, compareRows)
	return t, nil
}

// schemaOf returns a file's schema number if this number is the first field. Otherwise it returns 0.
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

// SystemDir is the directory of an administrator's tables.
const SystemDir = "/etc/epbench/tables"

// Locations says where Open looks for tables. Tables of a later field have precedence over tables of an earlier field.
// Open skips empty fields.
type Locations struct {
	Embedded    fs.FS  // *.json at its root
	System      string // directory of *.json
	User        string // directory of *.json
	File        string // one table, with precedence over all others
	AllowEdited bool   // accept and mark edited tables
}

// DefaultLocations returns the directories of the system and of the user.
func DefaultLocations() Locations {
	l := Locations{System: SystemDir}
	if dir, err := os.UserConfigDir(); err == nil {
		l.User = filepath.Join(dir, "epbench", "tables")
	}
	return l
}

// Open reads every table of l. A bad l.File is an error. A bad table in a directory gives only a warning.
func Open(l Locations) (*Set, error) {
	var sources []Source
	var warnings []error
	for _, dir := range []struct {
		name string
		fsys fs.FS
	}{{"embedded", l.Embedded}, {l.System, dirFS(l.System)}, {l.User, dirFS(l.User)}} {
		if dir.fsys == nil {
			continue
		}
		found, bad := openDir(dir.name, dir.fsys, l.AllowEdited)
		sources = append(sources, found...)
		warnings = append(warnings, bad...)
	}
	if l.File != "" {
		t, err := LoadFile(l.File, l.AllowEdited)
		if err != nil {
			return nil, err
		}
		sources = append(sources, Source{Name: l.File, Table: t})
	}
	s := Overlay(sources...)
	s.warnings = warnings
	return s, nil
}

func dirFS(dir string) fs.FS {
	if dir == "" {
		return nil
	}
	return os.DirFS(dir)
}

func openDir(name string, fsys fs.FS, allowEdited bool) (found []Source, bad []error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, []error{fmt.Errorf("%s: %w", name, err)}
	}
	for _, e := range entries {
		if e.IsDir() || path.Ext(e.Name()) != ".json" {
			continue
		}
		full := path.Join(name, e.Name())
		if t, err := loadFrom(fsys, e.Name(), full, allowEdited); err != nil {
			bad = append(bad, err)
		} else {
			found = append(found, Source{Name: full, Table: t})
		}
	}
	return found, bad
}

// LoadFile reads one table from a file.
func LoadFile(name string, allowEdited bool) (*Table, error) {
	return loadFrom(os.DirFS(filepath.Dir(name)), filepath.Base(name), name, allowEdited)
}

func loadFrom(fsys fs.FS, name, full string, allowEdited bool) (*Table, error) {
	var t *Table
	f, err := fsys.Open(name)
	if err == nil {
		defer f.Close()
		t, err = load(f, allowEdited)
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err // the error below has the full path
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", full, err)
	}
	return t, nil
}
