package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// paces holds the wall time of measuring in this user's earlier sweeps, by machine key and op.
type paces map[string]map[ep.Op]record.Pace

// paceFile returns the path of the file in the user's cache directory, or "" without one.
func paceFile() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "epbench", "pace.json")
}

func readPaces() paces {
	out := paces{}
	if text, err := os.ReadFile(paceFile()); err == nil && json.Unmarshal(text, &out) != nil {
		return paces{}
	}
	return out
}

// rememberPace keeps the pace of a run's last search of each op, for --dry-run. It ignores
// errors: losing the file costs an estimate.
func rememberPace(run *record.Run) {
	path := paceFile()
	if path == "" {
		return
	}
	all := readPaces()
	here := all[run.Machine.Key()]
	if here == nil {
		here = map[ep.Op]record.Pace{}
		all[run.Machine.Key()] = here
	}
	for _, s := range run.Searches {
		if s.Pace.Sample > 0 {
			here[s.Problem.Op] = s.Pace
		}
	}
	if os.MkdirAll(filepath.Dir(path), 0o777) == nil {
		_ = record.WriteFile(path, record.Content(func(w io.Writer) error {
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			return enc.Encode(all)
		}))
	}
}
