package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/peers"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

type importFlags struct {
	tables  tableFlags
	from    string
	out     string
	mapping string
	machine string
	given   peers.Given
}

func newImport() *cobra.Command {
	f := &importFlags{}
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Turn the output of other benchmarks into a run directory",
		Long:  importHelp(),
		Example: `  epbench import deepep.log -o peers
  epbench import figures.csv --map tokens=bs,us=latency --ranks 8 --hidden 7168
  nccl-tests ... | epbench import - --from nccl --label nccl`,
		Args: minArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags(cmd, forProblem, func(s *pflag.FlagSet) {
		s.StringVar(&f.from, "from", "auto", "`FORMAT` format of the files; auto: detected")
		s.StringVar(&f.mapping, "map", "", "`FIELD=COLUMN` columns of a CSV file, comma-separated")
		s.StringVar(&f.given.Definition, "definition", "", "`DEFINITION` how a bandwidth was computed: a name from the list above")
		s.StringVar(&f.given.Label, "label", "", "`NAME` name of the library in tables and pictures")
		s.StringVar(&f.machine, "machine", "unknown", "`NAME` label for the machine that measured the figures")
		s.StringVar(&f.given.Routing, "routing", "", "`ROUTING` routing of the figures; default: the routing that the file names, or uniform")
		s.IntVar(&f.given.Ranks, "ranks", 0, "`N` number of ranks")
		s.IntVar(&f.given.Nodes, "nodes", 0, "`N` number of hosts")
		s.IntVar(&f.given.Hidden, "hidden", 0, "`N` elements of a token")
		s.IntVar(&f.given.Experts, "experts", 0, "`N` experts of all ranks together")
		s.IntVar(&f.given.TopK, "topk", 0, "`N` experts per token")
		s.IntVar(&f.given.Tokens, "tokens", 0, "`N` tokens per rank")
	})
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVarP(&f.out, "out", "o", "", "`DIR` run directory to write, for plot and compare; default: print only")
	})
	f.tables.bind(cmd)
	return cmd
}

func importHelp() string {
	var b strings.Builder
	b.WriteString("Read the output of other benchmarks, convert every figure to a time, and write a run\ndirectory for plot, report and compare. - reads standard input. Flags give the values that\na file does not state. If both state a value, the flag is used, with a warning.\n\nFormats (--from):\n")
	for _, x := range peers.Formats {
		fmt.Fprintf(&b, "  %-15s %s\n", x.Name, x.Doc)
	}
	b.WriteString("\nBandwidth definitions (--definition), bytes per rank and call:\n")
	for _, d := range peers.Definitions {
		fmt.Fprintf(&b, "  %-15s %s\n", d.Name, d.Doc)
	}
	return b.String()
}

func (f *importFlags) run(cmd *cobra.Command, files []string) error {
	if _, err := f.tables.renderer(cmd); err != nil {
		return err
	}
	if err := f.columns(); err != nil {
		return err
	}
	results, err := f.readAll(cmd, files)
	if err != nil {
		return err
	}
	run := &record.Run{Tool: version, Command: append([]string{"epbench", "import"}, files...), Strategy: "import",
		Machine: ep.Machine{Backend: "import", Name: f.machine}, ABI: "import", Policy: "as published by others"}
	if err := f.write(run, results); err != nil {
		return err
	}
	return f.tables.print(cmd, importedTable(run, results))
}

func (f *importFlags) write(run *record.Run, results []record.Result) error {
	if f.out == "" {
		return nil
	}
	dir, err := record.CreateDir(f.out, run)
	if err != nil {
		return badInput(fmt.Errorf("--out: %w", err))
	}
	return errors.Join(dir.Append(results, 0), dir.Close())
}

func (f *importFlags) columns() error {
	f.given.Columns = map[string]string{}
	for _, pair := range splitList(f.mapping) {
		field, column, ok := strings.Cut(pair, "=")
		if !ok || field == "" || column == "" {
			return usagef("--map: %q is not field=column", pair)
		}
		f.given.Columns[column] = field
	}
	return nil
}

func (f *importFlags) readAll(cmd *cobra.Command, files []string) ([]record.Result, error) {
	var all []record.Result
	for _, name := range files {
		results, err := f.readFile(cmd, name)
		if err != nil {
			return nil, badInput(ep.FileError(name, err, "give a file that another benchmark printed"))
		}
		all = append(all, results...)
	}
	for i := range all {
		all[i].Seq = i
	}
	return all, nil
}

func (f *importFlags) readFile(cmd *cobra.Command, name string) ([]record.Result, error) {
	var in io.Reader = cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	results, used, warnings, err := peers.Read(in, f.from, f.given)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: %s: %s\n", name, used, w)
	}
	return results, nil
}

// values returns a config's parameters without the kernel.
func values(c ep.Config) reports.Cell {
	_, text, _ := strings.Cut(c.Key(), ":")
	if text == "" {
		return reports.None()
	}
	return reports.Str(text)
}

func importedTable(run *record.Run, results []record.Result) reports.Table {
	cases := reports.Cases(run, results)
	p := reports.ColumnsFor(cases)
	t := reports.Table{Name: "imported", Title: "Imported figures, as times", Columns: append(p.Columns,
		reports.Words("peer"), reports.Words("config").Dropped(2), reports.Numbers("time", "us"), reports.Words("clock").Dropped(1), reports.Words("what it was"))}
	for _, c := range cases {
		for _, e := range c.Entries {
			t.Add(append(p.Cells(c), reports.Str(e.Config.Kernel), values(e.Config), reports.Micros(e.Median.Mid), reports.Str(e.Clock), reports.Str(strings.Join(e.Blocks[0].Warnings, "; ")))...)
		}
	}
	t.Note(p.Shared)
	return t
}
