package reports

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

// Loaded is a run directory in memory.
type Loaded struct {
	Path     string
	Run      *record.Run
	Results  []record.Result
	Cases    []*Case
	Table    *table.Table // nil if there is none
	Warnings []string     // unusable files and lines
	between  []*Case      // see isBetweenSearches
}

// Load reads a run directory. Damaged files give warnings. A run without measurements is an error.
func Load(path string) (*Loaded, error) {
	run, results, warnings, err := record.ReadDir(path)
	if err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("%s: %s is empty: nothing was measured", path, record.TrialsFile)
	}
	l := &Loaded{Path: path, Run: run, Results: results}
	for _, c := range allCases(run, results) {
		if c.isBetweenSearches() {
			l.between = append(l.between, c)
		} else {
			l.Cases = append(l.Cases, c)
		}
	}
	for _, w := range warnings {
		l.Warnings = append(l.Warnings, w.Error())
	}
	tablePath := filepath.Join(path, record.TableFile)
	if l.Table, err = table.LoadFile(tablePath, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.Warnings = append(l.Warnings, err.Error())
	}
	if l.Table != nil {
		if err := record.CheckLog(path, run, l.Table.Header.TrialLog); err != nil {
			l.Warnings = append(l.Warnings, err.Error())
		}
	}
	return l, nil
}

// Name returns the name of the run's folder.
func (l *Loaded) Name() string { return filepath.Base(filepath.Clean(l.Path)) }

// Resume returns a sentence with the command that continues an unfinished sweep, or "" for other runs.
func (l *Loaded) Resume() string {
	if c := l.Run.Command; !l.Run.Finished.IsZero() || len(c) < 2 || c[1] != "sweep" {
		return ""
	}
	return "This run is unfinished. Continue it with: epbench sweep --resume " + ep.Quote(l.Path)
}

// Keep removes the cases for which keep returns false, and their records. A regret matrix stays if one of its cases
// stays.
func (l *Loaded) Keep(keep func(ep.Problem, string) bool) {
	run := *l.Run
	run.Searches = slices.DeleteFunc(slices.Clone(run.Searches), func(s record.Search) bool { return !keep(s.Problem, s.Routing) })
	run.Regrets = slices.DeleteFunc(slices.Clone(run.Regrets), func(r record.Regret) bool {
		return !slices.ContainsFunc(r.Routings, func(routing string) bool { return keep(r.Problem, routing) })
	})
	l.Run = &run
	l.Cases = slices.DeleteFunc(l.Cases, func(c *Case) bool { return !keep(c.Problem, c.Routing) })
}

// Seconds returns a config's time, corrected for drift. The zero Config means the default. ok is false if the config
// has no time.
func (l *Loaded) Seconds(k table.Key, tokens int, routing string, cfg ep.Config) (seconds float64, ok bool) {
	for _, c := range slices.Concat(l.Cases, l.between) {
		if c.Problem.Tokens != tokens || c.Routing != routing || table.KeyOf(c.Problem, k.Routing) != k {
			continue
		}
		if e := c.entryOf(cfg); e != nil {
			return e.Level, true
		}
	}
	return 0, false
}

// Paired returns the times of a config and of the default in seconds. It uses the rounds in which both were timed after
// all searches (record.StageCross). No search chose a config by these rounds, so the times are not biased.
func (l *Loaded) Paired(k table.Key, tokens int, routing string, cfg ep.Config) (config, dflt []float64) {
	for _, c := range slices.Concat(l.Cases, l.between) {
		if c.Problem.Tokens != tokens || c.Routing != routing || table.KeyOf(c.Problem, k.Routing) != k {
			continue
		}
		e, d := c.entryOf(cfg), c.entryOf(ep.Config{})
		if e == nil || d == nil {
			continue
		}
		byRound := map[roundID]float64{}
		for _, t := range d.rounds {
			byRound[t.roundID] = t.Seconds
		}
		for _, t := range e.rounds {
			if seconds, ok := byRound[t.roundID]; ok && t.stage == record.StageCross {
				config, dflt = append(config, t.Seconds), append(dflt, seconds)
			}
		}
	}
	return config, dflt
}

func (c *Case) entryOf(cfg ep.Config) *Entry {
	key := cfg.Key()
	return c.first(func(e *Entry) bool {
		return e.Timed() && (e.Key == key || cfg.IsDefault() && e.Role == record.Default)
	})
}

// DerivedTables returns the non-empty tables of a run. It lists at most maxFailures failures. If maxFailures is 0, it
// lists all failures.
func DerivedTables(l *Loaded, s Speeds, maxFailures int) []Table {
	s = s.Of(l.Run.Machine)
	var out []Table
	for _, t := range []Table{WinnersOf(l), EffectsTable(l.Cases), RegretTable(l.Run), ParetoTable(l.Cases), WireTable(l, s.Link), MemoryTable(l, s.Memory), FailedTable(l.Cases, maxFailures)} {
		if len(t.Rows) > 0 || len(t.Warnings) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// RehearsalOf returns the warning of runs on the CPU, or "".
func RehearsalOf(runs []*Loaded) string {
	var named []string
	same := true
	for _, l := range runs {
		text := l.Run.Rehearsal()
		same = same && text == runs[0].Run.Rehearsal()
		if text != "" {
			named = append(named, l.Name()+": "+text)
		}
	}
	if same && len(named) > 0 {
		return runs[0].Run.Rehearsal()
	}
	return strings.Join(named, "; ")
}
