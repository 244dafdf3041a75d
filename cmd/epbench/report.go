package main

import (
	"cmp"
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

type reportFlags struct {
	tables tableFlags
	out    string
	only   string
	noHTML bool
	speeds reports.Speeds
	filter runFilter
}

const benchFormat = "benchfmt"

func newReport() *cobra.Command {
	f := &reportFlags{}
	cmd := &cobra.Command{
		Use:   "report RUN...",
		Short: "Print the result of a run, and write its HTML page",
		Long: `Print the result of a run and write its HTML page, which needs no network. If several
runs are given, the page is for the first, and its pictures also show the others, such as
imported ones. If several libraries did the same work, a table and a picture compare them.
--only prints tables: winners, effects of each parameter, regret between routings, Pareto
fronts, wire and memory limits, failures, libraries, and the time that calls add to a
matrix product.

--format benchfmt prints the deciding rounds of the default and the winner in Go's
benchmark format; benchstat -col /config compares them. With --only all it prints every
round of every config.`,
		Example: `  epbench report run
  epbench report run --only winners,regret --no-html
  epbench report run peers -o page.html`,
		Args: minArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags(cmd, forProblem, f.filter.bind)
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVarP(&f.out, "out", "o", "", "`FILE` HTML page to write; default: report.html of the first run")
		s.StringVar(&f.only, "only", "", "`TABLES` print these tables, comma-separated: "+strings.Join(tableNames, ", ")+", "+libraries+", "+beside+", or all")
		s.BoolVar(&f.noHTML, "no-html", false, "do not write the HTML page")
		bindSpeeds(s, &f.speeds)
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
	runs, err := f.filter.load(cmd, paths)
	if err != nil {
		return err
	}
	if f.tables.format == benchFormat {
		for _, l := range runs {
			if err := reports.WriteBench(cmd.OutOrStdout(), l, f.only == "all"); err != nil {
				return fmt.Errorf("standard output: %w", err)
			}
		}
		return nil
	}
	tables, err := f.tablesOver(runs)
	if err != nil {
		return err
	}
	for _, l := range runs {
		if f.only != "" && !slices.ContainsFunc(splitList(f.only), func(s string) bool { return s != libraries && s != beside }) {
			break
		}
		of, err := f.tablesOf(l, len(runs) > 1)
		if err != nil {
			return err
		}
		tables = append(tables, of...)
	}
	// If the page cannot be written, nothing is printed.
	page, err := f.page(cmd, runs)
	if err != nil || page == "-" {
		return err
	}
	f.tables.lead = reports.RehearsalOf(runs)
	if err := f.tables.print(cmd, tables...); err != nil {
		return err
	}
	if page != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s\n", page)
	}
	return nil
}

// The tables "libraries" and "beside" have rows of all runs.
const (
	libraries = "libraries"
	beside    = "beside"
)

func (f *reportFlags) tablesOver(runs []*reports.Loaded) ([]reports.Table, error) {
	tables, err := f.librariesOf(runs)
	if err != nil || !slices.Contains(splitList(f.only), beside) {
		return tables, err
	}
	var of []*record.Run
	for _, l := range runs {
		of = append(of, l.Run)
	}
	t, ok := reports.BesideTables(of)
	if !ok {
		return nil, usagef("--only %s: no run has times beside a product; measure with --beside", beside)
	}
	return append(tables, t), nil
}

// librariesOf returns the table that compares libraries, or none.
func (f *reportFlags) librariesOf(runs []*reports.Loaded) ([]reports.Table, error) {
	asked := slices.Contains(splitList(f.only), libraries)
	if !asked && f.only != "" && f.only != "all" {
		return nil, nil
	}
	choices, err := reports.CompareLibraries(runs)
	switch {
	case err != nil && asked:
		return nil, withCode(exitNotComparable, err)
	case err == nil && (reports.SeveralLibraries(choices) || asked && reports.SeveralRuns(choices)):
		return []reports.Table{reports.LibraryTable(choices)}, nil
	case asked:
		return nil, usagef("--only %s: no two of these runs did the same work in one case", libraries)
	}
	return nil, nil // one library, or runs of different machines
}

// page returns the path of the HTML page, or "" with --no-html.
func (f *reportFlags) page(cmd *cobra.Command, runs []*reports.Loaded) (string, error) {
	if f.noHTML {
		return "", nil
	}
	out := cmp.Or(f.out, filepath.Join(runs[0].Path, record.ReportFile))
	err := writeOut(cmd, out, record.Content(func(w io.Writer) error { return html.Write(w, runs, html.Options{Speeds: f.speeds}) }))
	if err != nil {
		return "", badInput(fmt.Errorf("%w; write the page to another place with -o FILE, or leave it out with --no-html", err))
	}
	return out, nil
}

// maxPrinted is the largest number of failures in a table, except in CSV and JSON.
const maxPrinted = 40

// tablesOf returns the tables that --only names. If `named` is true, their titles have the run's name.
func (f *reportFlags) tablesOf(l *reports.Loaded, named bool) ([]reports.Table, error) {
	limit := maxPrinted
	if f.tables.forPrograms() {
		limit = 0
	}
	tables := reports.DerivedTables(l, f.speeds, limit)
	var err error
	switch {
	case f.only != "":
		tables, err = f.pick(tables)
	case !f.tables.forPrograms():
		tables = headline(l)
	}
	if named {
		for i := range tables {
			tables[i].Title = strings.TrimPrefix(tables[i].Title+", "+l.Name(), ", ")
		}
	}
	return tables, err
}

// headline returns a run's largest gains, summary and warnings.
func headline(l *reports.Loaded) []reports.Table {
	head := reports.Table{Title: l.Run.Machine.Name, Notes: reports.Summarise(l.Run).Lines()}
	head.Note(l.Resume())
	for _, w := range reports.GatherWarnings(append(l.Run.Warnings, l.Warnings...)) {
		head.Warn("%s", w)
	}
	head.Note("--only " + strings.Join(tableNames, ",") + " or --only all prints more tables")
	if top := reports.LargestGains(l.Run); len(top.Rows) > 0 {
		return []reports.Table{top, head}
	}
	return []reports.Table{head}
}

// tableNames lists the tables of reports.DerivedTables.
var tableNames = []string{"winners", "effects", "regret", "pareto", "wire", "memory", "failed"}

func (f *reportFlags) pick(tables []reports.Table) ([]reports.Table, error) {
	if f.only == "all" {
		return tables, nil
	}
	var out []reports.Table
	for _, want := range splitList(f.only) {
		if want == libraries || want == beside {
			continue
		}
		if !slices.Contains(tableNames, want) {
			return nil, usagef("--only: unknown %q, use one of %s, %s, %s", want, strings.Join(tableNames, ", "), libraries, beside)
		}
		for _, t := range tables {
			if t.Name == want {
				out = append(out, t)
			}
		}
	}
	if len(out) == 0 {
		return nil, usagef("--only %s: the run has no such table", f.only)
	}
	return out, nil
}

func bindSpeeds(set *pflag.FlagSet, s *reports.Speeds) {
	set.Float64Var(&s.Link, "link", 0, "`GB/s` speed of a rank's link in each direction, for the wire limit (1 GB is 10^9 bytes); default: the nominal speed of the machine's link")
	set.Float64Var(&s.Memory, "memory", 0, "`GB/s` speed of a GPU's memory, for the memory limit of op activation; default: the nominal speed of the GPU's memory")
}
