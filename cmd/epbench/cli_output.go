package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/text"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

type tableFlags struct {
	format string
	json   bool
	width  int
	lead   string // warning before the first table
	export []string
	kept   []reports.Table // for --export
}

var tableFormats = []struct {
	name   string
	render func(width int) reports.Renderer
}{
	{"text", text.Renderer},
	{"markdown", fixed(reports.WriteMarkdown)},
	{"csv", fixed(reports.WriteCSV)},
	{"json", fixed(reports.WriteJSON)},
}

func fixed(r reports.Renderer) func(int) reports.Renderer {
	return func(int) reports.Renderer { return r }
}

// bind registers the flags. `others` lists further values of --format.
func (f *tableFlags) bind(cmd *cobra.Command, others ...string) {
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVar(&f.format, "format", "text", "`FORMAT` how tables are printed: "+strings.Join(append(tableFormatNames(), others...), ", "))
		s.BoolVar(&f.json, "json", false, "the same as --format json")
		s.StringArrayVar(&f.export, "export", nil, "`FILE` also write the tables to FILE, as its ending says: .md, .csv or .json; repeatable")
		s.IntVar(&f.width, "width", 0, "`COLUMNS` width of text tables; default: the width of the terminal, unlimited in a pipe")
	})
}

func tableFormatNames() []string {
	var names []string
	for _, f := range tableFormats {
		names = append(names, f.name)
	}
	return names
}

// renderer returns the renderer of --format. Call it before measuring, because it checks the flags.
func (f *tableFlags) renderer(cmd *cobra.Command) (reports.Renderer, error) {
	if f.width < 0 || f.width > 0 && f.width < 40 {
		return nil, usagef("--width: %d is below 40; 0 takes the width of the terminal", f.width)
	}
	if err := f.checkExports(); err != nil {
		return nil, err
	}
	width := f.columns(cmd)
	format := f.format
	if f.json {
		format = "json"
	}
	for _, known := range tableFormats {
		if known.name == format {
			return known.render(width), nil
		}
	}
	first, _, _ := strings.Cut(format, ",")
	if _, err := ep.ParseDType(first); err == nil {
		return nil, usagef("--format: %s is a dtype, use --dtype; --format chooses how tables are printed", first)
	}
	return nil, usagef("--format: unknown table format %q, use one of %s", f.format, strings.Join(tableFormatNames(), ", "))
}

func (f *tableFlags) print(cmd *cobra.Command, tables ...reports.Table) error {
	r, err := f.renderer(cmd)
	if err != nil {
		return err
	}
	if err := f.writeExports(tables); err != nil {
		return err
	}
	if !f.forPrograms() {
		for i, t := range tables {
			tables[i] = gathered(t)
		}
	}
	if f.lead != "" {
		f.printLead(cmd, tables)
	}
	if err := r(cmd.OutOrStdout(), tables...); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

func (f *tableFlags) printLead(cmd *cobra.Command, tables []reports.Table) {
	switch {
	case f.json || f.format == "json":
		for i := range tables {
			tables[i].Warnings = append([]string{f.lead}, tables[i].Warnings...)
		}
		return
	case f.format == "csv":
		fmt.Fprintln(cmd.ErrOrStderr(), f.lead)
	default:
		text.Renderer(f.columns(cmd))(cmd.OutOrStdout(), reports.Table{Notes: []string{f.lead}})
		fmt.Fprintln(cmd.OutOrStdout())
	}
	f.lead = ""
}

// leadOfTable returns the warning that a table was made on a CPU, or "".
func leadOfTable(t *table.Table) string {
	ranks := 0
	for _, r := range t.Rows {
		ranks = max(ranks, r.Key.Ranks)
	}
	return t.Header.Machine.Rehearsal(ranks)
}

func writeOut(cmd *cobra.Command, path string, content io.WriterTo) error {
	if path == "-" {
		_, err := content.WriteTo(cmd.OutOrStdout())
		return err
	}
	if err := record.WriteFile(path, content); err != nil {
		return badInput(fmt.Errorf("-o: %w", err))
	}
	return nil
}

// writable returns an error if `path` cannot be written. It does not change the file.
func writable(flag, path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return badInput(fmt.Errorf("%s: %s is a directory", flag, path))
		}
		return nil // a device or a pipe
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".epbench-*")
	if err != nil {
		return badInput(fmt.Errorf("%s: %s: %w", flag, path, errors.Unwrap(err)))
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (f *tableFlags) paragraphs(cmd *cobra.Command, lines ...string) error {
	return f.print(cmd, reports.Table{Notes: lines})
}

func (f *tableFlags) warn(cmd *cobra.Command, warnings []string) {
	text.Renderer(f.columns(cmd))(cmd.ErrOrStderr(), reports.Table{Warnings: warnings})
}

// programName returns the command that starts this program.
func programName() string {
	self := os.Args[0]
	if _, err := exec.LookPath("epbench"); err == nil {
		return "epbench"
	}
	if strings.Contains(self, "go-build") {
		return "go run ./cmd/epbench"
	}
	return ep.Quote(self)
}

// columns returns the width of text; 0 means unlimited.
func (f *tableFlags) columns(cmd *cobra.Command) int { return cmp.Or(f.width, terminalWidth(cmd)) }

func (f *tableFlags) forPrograms() bool { return f.json || f.format == "csv" || f.format == "json" }

// terminalWidth returns COLUMNS or the width of the terminal, 0 if there is none.
func terminalWidth(cmd *cobra.Command) int {
	out := cmd.OutOrStdout()
	if _, isFile := out.(*os.File); isFile {
		if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= 40 {
			return n
		}
	}
	return widthOf(out)
}
