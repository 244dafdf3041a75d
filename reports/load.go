package reports

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

// Loaded is a run directory in memory, sorted into cases.
type Loaded struct {
	Path     string
	Run      *record.Run
	Results  []record.Result
	Cases    []*Case
	Table    *table.Table // nil when the run wrote none
	Warnings []string     // what of the directory could not be used
}

// Load reads a run directory. An error means that it holds nothing usable;
// a damaged part beside a usable one becomes a warning that names it.
func Load(path string) (*Loaded, error) {
	run, results, warnings, err := record.ReadDir(path)
	if err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("%s: %s is empty: nothing was measured", path, record.TrialsFile)
	}
	l := &Loaded{Path: path, Run: run, Results: results, Cases: Cases(run, results)}
	for _, w := range warnings {
		l.Warnings = append(l.Warnings, w.Error())
	}
	tablePath := filepath.Join(path, record.TableFile)
	if l.Table, err = table.LoadFile(tablePath, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.Warnings = append(l.Warnings, err.Error())
	}
	return l, nil
}

// Name is what plots and tables call the run.
func (l *Loaded) Name() string { return filepath.Base(filepath.Clean(l.Path)) }

// Seconds is what a config took in the run at a token count of k, cleared of drift,
// under a routing; ok is false where it was not measured or failed. The default
// config stands for the library's own choice.
func (l *Loaded) Seconds(k table.Key, tokens int, routing string, cfg ep.Config) (seconds float64, ok bool) {
	for _, c := range l.Cases {
		if c.Problem.Tokens != tokens || c.Routing != routing || table.KeyOf(c.Problem, k.Routing) != k {
			continue
		}
		if e := c.entryOf(cfg); e != nil {
			return e.Level, true
		}
	}
	return 0, false
}

// entryOf is what a case measured of a config, nil where it did not or that failed.
func (c *Case) entryOf(cfg ep.Config) *Entry {
	for _, e := range c.Entries {
		own := e.Key == cfg.Key() || cfg.IsDefault() && e.Role == record.Default
		if own && e.OK() && e.Role != record.Twin && e.Role != record.Peer {
			return e
		}
	}
	return nil
}
