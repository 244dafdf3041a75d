package table

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// SystemDir is where an administrator puts tables for every user of a host.
const SystemDir = "/etc/epbench/tables"

// Locations says where Open looks for tables, from the lowest layer to the highest.
// Zero fields are skipped.
type Locations struct {
	Embedded    fs.FS  // *.json at its root, compiled into the program
	System      string // directory of *.json
	User        string // directory of *.json
	File        string // one table, above all others
	AllowEdited bool   // take tables whose content does not match their id, marked
}

// DefaultLocations are the directories of the system and of the user. A program adds
// its embedded tables and its own file.
func DefaultLocations() Locations {
	l := Locations{System: SystemDir}
	if dir, err := os.UserConfigDir(); err == nil {
		l.User = filepath.Join(dir, "epbench", "tables")
	}
	return l
}

// Open reads every table of l. The file must be good. A bad table in a directory is
// left out and listed in Warnings, so that one broken file cannot keep a server from
// starting.
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

// openDir reads the tables of a directory in the order of their names.
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

// LoadFile reads one table from a file. Errors start with its path.
func LoadFile(name string, allowEdited bool) (*Table, error) {
	return loadFrom(os.DirFS(filepath.Dir(name)), filepath.Base(name), name, allowEdited)
}

// loadFrom reads the table called name of a directory; full is its path in errors.
func loadFrom(fsys fs.FS, name, full string, allowEdited bool) (*Table, error) {
	var t *Table
	f, err := fsys.Open(name)
	if err == nil {
		defer f.Close()
		t, err = load(f, allowEdited)
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err // full is the path to name
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", full, err)
	}
	return t, nil
}
