package html

import (
	"io"
	"os"
	"path/filepath"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/chart"
	"github.com/epbench/epbench/tune/record"
)

// WriteRun writes report.html into the directory of a run, and the page's pictures
// into plots/. Files of an earlier call are replaced.
func WriteRun(l *reports.Loaded) error {
	dir, runs := l.Path, []*reports.Loaded{l}
	err := record.WriteFile(filepath.Join(dir, record.ReportFile), record.Content(func(w io.Writer) error { return Write(w, runs, Options{}) }))
	if err != nil {
		return err
	}
	return writePlots(dir, runs)
}

func writePlots(dir string, runs []*reports.Loaded) error {
	plots := filepath.Join(dir, record.PlotsDir)
	if err := os.MkdirAll(plots, 0o777); err != nil {
		return err
	}
	var o chart.Options
	o.Loads, _ = chart.Loads(runs)
	for _, k := range chart.Kinds {
		for _, f := range spread(k.Draw(runs, o), perKind) {
			err := record.WriteFile(filepath.Join(plots, f.Name+".svg"), record.Content(func(w io.Writer) error { return f.Write(w, "svg", chart.DefaultScale) }))
			if err != nil {
				return err
			}
		}
	}
	return nil
}
