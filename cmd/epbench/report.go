package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/html"
	"github.com/epbench/epbench/tune/record"
)

// reportFlags are the flags of report.
type reportFlags struct {
	tables tableFlags
	out    string
	only   string
	noHTML bool
	link   float64
	filter runFilter
}

// benchFormat is the one rendering of report that is not of tables.
const benchFormat = "benchfmt"

func newReport() *cobra.Command {
	f := &reportFlags{}
	cmd := &cobra.Command{
		Use:   "report RUN...",
		Short: "Tables on the terminal and one self-contained HTML page",
		Long: `Print the tables of a run (winners, effects of each parameter, regret between
routings, Pareto fronts, wire limit, failures) and write the HTML page, which
opens from disk and needs no network. Further runs, such as imported ones of
peers, stand beside the first in the page's pictures.

--format benchfmt prints every round in Go's benchmark format instead, for
benchstat.`,
		Example: `  epbench report run
  epbench report run --only winners,regret --no-html
  epbench report run peers -o page.html`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags(cmd, forProblem, f.filter.bind)
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVarP(&f.out, "out", "o", "", "`FILE` for the HTML page; default: report.html of the first run")
		s.StringVar(&f.only, "only", "", "`TABLES` to print, comma-separated: "+strings.Join(tableNames, ", "))
		s.BoolVar(&f.noHTML, "no-html", false, "print tables only")
		s.Float64Var(&f.link, "link", 0, "`GB/s` (10^9) of a rank's link each way, for the wire limit; default: by the machine's link")
	})
	f.tables.bind(cmd, benchFormat)
	return cmd
}

func (f *reportFlags) run(cmd *cobra.Command, paths []string) error {
	if f.tables.format != benchFormat {
		if _, err := f.tables.renderer(cmd); err != nil {
			return err
		}
	}
	runs, err := loadRuns(cmd, paths)
	if err != nil {
		return err
	}
	for _, l := range runs {
		if err := f.filter.apply(l); err != nil {
			return err
		}
	}
	if f.tables.format == benchFormat {
		for _, l := range runs {
			if err := reports.WriteBench(cmd.OutOrStdout(), l); err != nil {
				return fmt.Errorf("standard output: %w", err)
			}
		}
		return nil
	}
	if err := f.print(cmd, runs[0]); err != nil {
		return err
	}
	if f.noHTML {
		return nil
	}
	return f.page(cmd, runs)
}

func (f *reportFlags) page(cmd *cobra.Command, runs []*reports.Loaded) error {
	out := f.out
	if out == "" {
		out = filepath.Join(runs[0].Path, record.ReportFile)
	}
	err := record.WriteFileAtomic(out, func(w io.Writer) error { return html.Write(w, runs, html.Options{Link: f.link}) })
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s\n", out)
	return nil
}

// maxPrinted bounds the list of failures on a terminal; files get all of it.
const maxPrinted = 40

func (f *reportFlags) print(cmd *cobra.Command, l *reports.Loaded) error {
	limit := 0
	if f.tables.format == "text" && !f.tables.json {
		limit = maxPrinted
	}
	tables := reports.DerivedTables(l, f.link, limit)
	if f.only != "" {
		var err error
		if tables, err = f.pick(tables); err != nil {
			return err
		}
	}
	return f.tables.print(cmd, tables...)
}

// tableNames are the names of what DerivedTables makes.
var tableNames = []string{"winners", "effects", "regret", "pareto", "wire", "failed"}

func (f *reportFlags) pick(tables []reports.Table) ([]reports.Table, error) {
	var out []reports.Table
	for _, want := range splitList(f.only) {
		if !slices.Contains(tableNames, want) {
			return nil, usagef("--only: unknown %q, use one of %s", want, strings.Join(tableNames, ", "))
		}
		for _, t := range tables {
			if t.Name == want {
				out = append(out, t)
			}
		}
	}
	if len(out) == 0 {
		return nil, usagef("--only %s: the run has nothing for it", f.only)
	}
	return out, nil
}
