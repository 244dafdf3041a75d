package main

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
)

var exportFormats = map[string]reports.Renderer{".md": reports.WriteMarkdown, ".csv": reports.WriteCSV, ".json": reports.WriteJSON}

// checkExports returns an error if a file of --export cannot be written. Call it before measuring.
func (f *tableFlags) checkExports() error {
	for _, file := range f.export {
		if exportFormats[filepath.Ext(file)] == nil {
			return usagef("--export: %s must end in .md, .csv or .json", file)
		}
		if err := writable("--export", file); err != nil {
			return err
		}
	}
	return nil
}

// writeExports writes the files of --export. It leaves out tables without columns: they hold only sentences for the
// screen.
func (f *tableFlags) writeExports(tables []reports.Table) error {
	if len(f.export) == 0 {
		return nil
	}
	for _, t := range tables {
		if len(t.Columns) > 0 {
			f.kept = append(f.kept, t)
		}
	}
	for _, file := range f.export {
		var b bytes.Buffer
		if err := exportFormats[filepath.Ext(file)](&b, f.kept...); err != nil {
			return err
		}
		if err := record.WriteFile(file, &b); err != nil {
			return badInput(fmt.Errorf("--export: %w", err))
		}
	}
	return nil
}
