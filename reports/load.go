package reports

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/epbench/epbench/tune/plan"
)

// Loaded is a run directory in memory, sorted into cases.
type Loaded struct {
	Path     string
	Run      *Run
	Results  []Result
	Cases    []*Case
	Table    *plan.Table // nil when the run wrote none
	Warnings []string    // what of the directory could not be used
}

// Load reads a run directory. An error means that it holds nothing usable;
// a damaged part beside a usable one becomes a warning that names it.
func Load(path string) (*Loaded, error) {
	run, results, warnings, err := ReadDir(path)
	if err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("%s: %s is empty: nothing was measured", path, TrialsFile)
	}
	l := &Loaded{Path: path, Run: run, Results: results, Cases: Cases(run, results)}
	for _, w := range warnings {
		l.Warnings = append(l.Warnings, w.Error())
	}
	table := filepath.Join(path, TableFile)
	if l.Table, err = plan.LoadFile(table, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.Warnings = append(l.Warnings, err.Error())
	}
	return l, nil
}

// Name is what plots and tables call the run.
func (l *Loaded) Name() string { return filepath.Base(filepath.Clean(l.Path)) }
