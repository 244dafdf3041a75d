package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/text"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

func newStart() *cobra.Command {
	var out tableFlags
	var tables sourceFlags
	var path, model string
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Look at this machine, and print the commands to type first",
		Long: `Look for GPUs, tuned tables, packs, and Python modules such as torch and deep_ep. Print
three commands that fit this machine: one measures, one shows the result, and one exports
it. Nothing is measured, compiled or written.`,
		Example: `  epbench start
  epbench start --for flashinfer --model qwen3-235b
  epbench start --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := tables.open()
			if err != nil {
				return err
			}
			found := lookAround(cmd)
			p, err := planFor(path, found)
			if err != nil {
				return err
			}
			steps := p.steps(found, model)
			out.lead = unmeasured(found, set)
			shown := []reports.Table{foundTable(found)}
			if found.Machine.Name != "" {
				shown = append(shown, startTables(found, set))
			}
			if out.forPrograms() {
				return out.print(cmd, append(shown, stepTable(p, found, steps))...)
			}
			if err := out.print(cmd, shown...); err != nil {
				return err
			}
			return out.printSteps(cmd, p, found, steps)
		},
	}
	flags(cmd, forProblem, func(s *pflag.FlagSet) {
		s.StringVar(&path, "for", "", "`LIBRARY` what to tune: "+strings.Join(planNames(), ", ")+"; default: the first that is installed")
		s.StringVar(&model, "model", "deepseek-v3", "`PRESET` model whose shape the printed commands use")
	})
	tables.bind(cmd)
	out.bind(cmd)
	return cmd
}

func foundTable(s surroundings) reports.Table {
	t := newFacts("found", "This machine")
	switch {
	case s.Machine.Name != "":
		t.add("GPUs", "%d x %s, driver %s, links %s", s.GPUs, s.Machine.Name, s.Machine.Driver, s.Machine.Link)
	case s.GPUs > 0:
		t.add("GPUs", "%d, but epbench-cuda does not answer: %s", s.GPUs, s.NoGPU)
	default:
		t.add("GPUs", "none: %s", s.NoGPU)
	}
	t.add("python", "%s", cmp.Or(s.Python, "no python3 on PATH"))
	for _, name := range modules {
		t.add(name, "%s", cmp.Or(s.Modules[name], "not installed"))
	}
	t.add("workers", "%s", cmp.Or(s.Worker, "not found; the Python wheel of epbench contains them"))
	t.add("packs", "%s", cmp.Or(strings.Join(s.Packs, " "), "none in EPCOMM_PACKS or "+packCache()))
	return t.Table
}

func startTables(s surroundings, set *table.Set) reports.Table {
	t := appliesTable(table.Host{Machine: s.Machine, ABI: declare.ABI()}, set)
	t.Title = "Tables"
	return t
}

// measured returns the machines of the tables, such as "2 x NVIDIA H200", and their largest number of GPUs.
func measured(set *table.Set) (names []string, most int) {
	for _, source := range set.Sources() {
		m := source.Table.Header.Machine
		if name := fmt.Sprintf("%d x %s", m.GPUs, m.Name); m.GPUs > 0 && !slices.Contains(names, name) {
			names, most = append(names, name), max(most, m.GPUs)
		}
	}
	return names, most
}

// unmeasured says for which machines epbench has no measurements.
func unmeasured(s surroundings, set *table.Set) string {
	names, most := measured(set)
	text := fmt.Sprintf("epbench has not been measured on more than %d GPUs, nor on several hosts. Its tables are for %s.", most, strings.Join(names, ", "))
	switch {
	case s.GPUs == 0:
		return text + " This host has no GPU: a sweep shows how epbench works and says nothing about times on GPUs."
	case s.GPUs > most:
		return text + fmt.Sprintf(" This host has %d GPUs: rely on your own sweep.", s.GPUs)
	}
	return text
}

type step struct {
	does    string
	words   []string // arguments, without shell quotes
	minutes int      // 0 means seconds
}

func stepTable(p plan, s surroundings, steps []step) reports.Table {
	t := reports.Table{Name: "steps", Title: p.title(s), Columns: []reports.Column{
		reports.Numbers("step", ""), reports.Words("does"), reports.Numbers("about", "min"), reports.Words("command"),
	}}
	for i, e := range steps {
		t.Add(reports.Int(i+1), reports.Str(e.does), reports.Int(e.minutes), reports.Str(e.command()))
	}
	return t
}

func (s step) command() string {
	out := []string{programName()}
	for _, w := range s.words {
		out = append(out, ep.Quote(w))
	}
	return strings.Join(out, " ")
}

func (f *tableFlags) printSteps(cmd *cobra.Command, p plan, s surroundings, steps []step) error {
	fmt.Fprintln(cmd.OutOrStdout())
	if err := f.paragraphs(cmd, "Three commands for "+p.title(s)+". Nothing was run."); err != nil {
		return err
	}
	for i, e := range steps {
		takes := "seconds"
		if e.minutes > 0 {
			takes = "about " + ep.Count(e.minutes, "minute")
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "\n%d. %s (%s)\n\n%s\n", i+1, e.does, takes, text.Command(e.command(), f.columns(cmd))); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
	}
	fmt.Fprintln(cmd.OutOrStdout())
	others := slices.DeleteFunc(planNames(), func(name string) bool { return name == p.name })
	return f.paragraphs(cmd, p.page+" explains each step. For another library: --for "+strings.Join(others, ", ")+".")
}

// freeName returns the first of name, name-2, name-3, ... that does not exist.
func freeName(name string) string {
	for i, free := 2, name; ; i++ {
		if _, err := os.Lstat(free); err != nil {
			return free
		}
		free = fmt.Sprintf("%s-%d", name, i)
	}
}

// packCache returns the folder of the packs that epcomm makes.
func packCache() string {
	if dir := os.Getenv("EPCOMM_CACHE"); dir != "" {
		return dir
	}
	home, _ := os.UserHomeDir() // without a home the folder does not exist
	return filepath.Join(home, ".cache", "epcomm")
}
