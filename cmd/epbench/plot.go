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
	"github.com/epbench/epbench/reports/chart"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

type plotFlags struct {
	kind    string
	out     string
	format  string
	limit   int
	scale   float64
	filter  runFilter
	options chart.Options
	compare compareFlags
}

func newPlot() *cobra.Command {
	f := &plotFlags{}
	cmd := &cobra.Command{
		Use:   "plot RUN...",
		Short: "Draw run directories",
		Long:  plotHelp(),
		Example: `  epbench plot run
  epbench plot run --kind regret,pareto --op dispatch --tokens 128
  epbench plot run peers --kind latency --format png -o pictures`,
		Args: minArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags(cmd, forProblem, f.filter.bind)
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVar(&f.kind, "kind", "gain", "`KINDS` kinds of pictures, comma-separated, or all")
		s.StringVarP(&f.out, "out", "o", "", "`DIR` directory for the pictures; default: plots/ of the first run")
		s.StringVar(&f.format, "format", "svg", "`FORMAT` format of the files: "+strings.Join(chart.Formats(), ", "))
		s.Float64Var(&f.scale, "scale", chart.DefaultScale, "`FACTOR` resolution of png, 1 to 10; 2 gives about 1,200 pixels of width")
		s.IntVar(&f.limit, "limit", 24, "`N` largest number of pictures of one kind; 0 draws all")
		bindSpeeds(s, &f.options.Speeds)
		s.BoolVar(&f.options.Beside, "beside", false, "with kind pareto and a run made with --beside: draw in one picture the time of a call that runs alone and the time that it adds to a matrix product that runs at the same time")
		s.StringVar(&f.options.X, "x", "", "`PARAMETER` parameter on the x axis of a heatmap; default: SMs")
		s.StringVar(&f.options.Y, "y", "", "`PARAMETER` parameter on the y axis of a heatmap; default: threads")
	})
	f.compare.bindOptions(cmd)
	return cmd
}

func plotHelp() string {
	var b strings.Builder
	b.WriteString("Draw run directories, one file for each picture. The kinds latency and wire draw several\nruns into one picture. Some of these runs may be imported.\n\nKinds:\n")
	for _, k := range chart.Kinds {
		fmt.Fprintf(&b, "  %-10s %s\n", k.Name, k.Doc)
	}
	return b.String()
}

func (f *plotFlags) run(cmd *cobra.Command, paths []string) error {
	kinds, err := f.kinds()
	if err != nil {
		return badInput(err)
	}
	if !slices.Contains(chart.Formats(), f.format) {
		return usagef("--format: unknown %q, use one of %s", f.format, strings.Join(chart.Formats(), ", "))
	}
	if !(f.scale >= 1 && f.scale <= 10) {
		return usagef("--scale: %v is outside 1 to 10", f.scale)
	}
	if f.options.Compare, err = f.compare.options(); err != nil {
		return err
	}
	f.options.Fail = f.compare.failOn
	if f.out == "" {
		f.out = filepath.Join(paths[0], record.PlotsDir)
	}
	runs, err := f.filter.load(cmd, paths)
	if err != nil {
		return err
	}
	if err := cmp.Or(knownParameter("--x", f.options.X, runs), knownParameter("--y", f.options.Y, runs)); err != nil {
		return err
	}
	// Imported runs have no decisions, so kind gain draws nothing, and kind latency takes its place.
	if !cmd.Flags().Changed("kind") && len(kinds[0].Draw(runs, f.options)) == 0 {
		f.kind = "latency"
		if kinds, err = f.kinds(); err != nil {
			return err
		}
	}
	if err := outputDir(f.out); err != nil {
		return err
	}
	return f.draw(cmd, kinds, runs)
}

func knownParameter(flag, name string, runs []*reports.Loaded) error {
	if name == "" {
		return nil
	}
	var known []string
	for _, l := range runs {
		for _, c := range l.Cases {
			for _, e := range c.Entries {
				for _, n := range e.Config.Names() {
					if !slices.Contains(known, n) {
						known = append(known, n)
					}
				}
			}
		}
	}
	if slices.Contains(known, name) {
		return nil
	}
	slices.Sort(known)
	return usagef("%s: no config of these runs has a parameter %q%s", flag, name, ep.DidYouMean(name, known, "; there are "+strings.Join(known, ", ")))
}

func (f *plotFlags) kinds() ([]chart.Kind, error) {
	if f.kind == "all" {
		return chart.Kinds, nil
	}
	var out []chart.Kind
	for _, name := range splitList(f.kind) {
		k, err := chart.FindKind(name)
		if err != nil {
			return nil, fmt.Errorf("--%w", err)
		}
		out = append(out, k)
	}
	return out, nil
}

func (f *plotFlags) draw(cmd *cobra.Command, kinds []chart.Kind, runs []*reports.Loaded) error {
	drawn := 0
	for _, k := range kinds {
		if k.Name == "imbalance" {
			f.loads(cmd, runs)
		}
		figures := k.Draw(runs, f.options)
		if len(figures) == 0 {
			why := whyEmpty[k.Name]
			if k.Name == "pareto" && f.options.Beside {
				why = ": the run was not made with --beside"
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: nothing to draw%s\n", k.Name, why)
		}
		if f.limit > 0 && len(figures) > f.limit {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: --limit leaves out %[3]d of %[2]d pictures; raise it, or select cases with --op, --tokens and --routing\n", k.Name, len(figures), len(figures)-f.limit)
			figures = figures[:f.limit]
		}
		for _, fig := range figures {
			path := filepath.Join(f.out, fig.Name+"."+f.format)
			if err := record.WriteFile(path, record.Content(func(w io.Writer) error { return fig.Write(w, f.format, f.scale) })); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			drawn++
		}
	}
	if drawn == 0 {
		return usagef("--kind %s: these runs have nothing to draw", f.kind)
	}
	return nil
}

var whyEmpty = map[string]string{
	"gain":      ": the run has no decisions; --kind latency draws its times",
	"bandwidth": ": the bytes of its routings are not known",
	"heatmap":   ": it needs two parameters with several values each (--x, --y)",
	"pareto":    ": no kernel of the run says how many SMs it takes",
	"regret":    ": it needs a problem measured under two routings",
	"wire":      ": the link's speed is not known; give --link GB/s",
	"imbalance": ": no routing of the run can be generated again on this machine",
	"compare":   ": it takes two comparable runs",
	"libraries": ": it takes runs of several libraries on one machine that do the same work in one case",
}

func (f *plotFlags) loads(cmd *cobra.Command, runs []*reports.Loaded) {
	loads, missing := chart.Loads(runs)
	f.options.Loads = loads
	for _, m := range missing {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: imbalance: %s\n", m)
	}
}
