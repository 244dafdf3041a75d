package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/kernels/model"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/predict"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

func newModel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Predict times for numbers of ranks and hosts that you do not have",
		Long: `Fit a model to recorded runs, print its error on runs left out of the fit and on
published figures, and predict times. A prediction is never a measurement: every table
says "predicted", and run directories and tuned tables refuse predictions.`,
		Example: `  epbench model fit testdata/runs -o model.yaml
  epbench model compare model.yaml
  epbench model plan model.yaml --model deepseek-v3 -o plan.svg`,
		Args: cobra.ArbitraryArgs,
		RunE: needSubcommand,
	}
	cmd.AddCommand(newModelFit(), newModelCompare(), newModelPlan())
	return cmd
}

type fitFlags struct {
	links  string
	out    string
	worst  int
	leave  string
	tables tableFlags
}

func newModelFit() *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "fit RUN...",
		Short: "Fit the model to recorded GPU runs, and print its error",
		Long: `Fit the model to the times in run directories. Its parameters are fixed costs of a call
and the shares of the links' speeds that kernels reach. fit leaves out each run once and
predicts it from the other runs. It prints the error of these predictions and writes it
into the file. If a directory has no run.json, fit reads all runs below it.`,
		Example: `  epbench model fit testdata/runs -o model.yaml
  epbench model fit run1 run2 --links links.yaml --worst 10
  epbench model fit testdata/runs --leave-out ranks`,
		Args: minArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags(cmd, forProblem, func(s *pflag.FlagSet) {
		s.StringVar(&f.links, "links", "", "`FILE` file with the speeds of links; default: the built-in file")
		s.StringVar(&f.leave, "leave-out", "run", "`PART` what to leave out and predict, one after the other: "+strings.Join(predict.PartNames(), ", "))
	})
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVarP(&f.out, "out", "o", "", "`FILE` model file to write; default: none")
		s.IntVar(&f.worst, "worst", 0, "`N` also print the N worst predictions")
	})
	f.tables.bind(cmd)
	return cmd
}

func (f *fitFlags) run(cmd *cobra.Command, paths []string) error {
	if _, err := f.tables.renderer(cmd); err != nil {
		return err
	}
	if f.worst < 0 {
		return usagef("--worst: %d is below 0", f.worst)
	}
	if !slices.Contains(predict.PartNames(), f.leave) {
		return usagef("--leave-out: unknown %q, use one of %s", f.leave, strings.Join(predict.PartNames(), ", "))
	}
	facts, err := f.facts()
	if err != nil {
		return badInput(fmt.Errorf("--links: %w", err))
	}
	rows, err := readRuns(cmd, paths)
	if err != nil {
		return badInput(err)
	}
	fitted, err := predict.Fit(facts, rows, f.leave)
	if err != nil {
		return badInput(err)
	}
	table := predict.FitTable(fitted.File)
	for _, few := range fitted.Few {
		table.Warn("not fitted, because it has too few times: %s", few)
	}
	tables := []reports.Table{table}
	if f.worst > 0 {
		tables = append(tables, predict.WorstTable(fitted.Residuals, f.worst))
	}
	if err := f.tables.print(cmd, tables...); err != nil || f.out == "" {
		return err
	}
	return writeOut(cmd, f.out, record.Content(fitted.File.Write))
}

func (f *fitFlags) facts() (*model.File, error) {
	if f.links == "" {
		return model.Links()
	}
	return model.LoadLinks(f.links)
}

// readRuns reads the times of run directories, or of all runs below a folder.
func readRuns(cmd *cobra.Command, paths []string) ([]predict.Row, error) {
	var r predict.Reader
	for _, path := range paths {
		dirs, err := runsBelow(path)
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			name, err := filepath.Rel(path, dir)
			if err != nil || name == "." {
				name = filepath.Base(dir)
			}
			if err := r.Read(dir, filepath.ToSlash(name)); err != nil {
				return nil, err
			}
		}
	}
	if len(r.Skipped) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "left out: %s\n", strings.Join(r.Skipped, ", "))
	}
	if len(r.Rows) == 0 {
		return nil, fmt.Errorf("no recorded time of a GPU in %s", strings.Join(paths, ", "))
	}
	return r.Rows, nil
}

func runsBelow(path string) ([]string, error) {
	var out []string
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is a file; give a run directory, or a directory of runs", path)
	}
	// The trailing separator makes WalkDir follow a link to a directory.
	err := filepath.WalkDir(path+string(filepath.Separator), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == record.RunFile {
			out = append(out, filepath.Dir(p))
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(out) == 0 {
		err = fmt.Errorf("%s: found no run directory; epbench sweep -o %s makes one", path, ep.Quote(path))
	}
	return out, err
}

func newModelCompare() *cobra.Command {
	var tables tableFlags
	cmd := &cobra.Command{
		Use:   "compare MODEL.yaml",
		Short: "Compare published figures on several hosts with predictions",
		Example: `  epbench model compare model.yaml
  epbench model compare testdata/models/h200.yaml --format markdown
  epbench model compare model.yaml --format csv`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := model.Load(args[0])
			if err != nil {
				return badInput(err)
			}
			rows, err := predict.PublishedRows()
			if err != nil {
				return err
			}
			compared, missing, err := predict.Compare(f, rows)
			if err != nil {
				return badInput(err)
			}
			t := predict.CompareTable(compared)
			for _, m := range missing {
				t.Warn("%s", m)
			}
			return tables.print(cmd, t)
		},
	}
	tables.bind(cmd)
	return cmd
}
