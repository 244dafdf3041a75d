package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/table/embedded"
)

var tableCommands = []func() *cobra.Command{
	newTableShow,
	newTableLookup,
	newTableExplain,
	newTableDiff,
	newTableMerge,
	newTableFallback,
	newTableLint,
	newTableVerify,
	newTableWiden,
	newTableChoose,
	newTableExport,
}

func newTable() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "table",
		Short: "Show, look up, compare, check and export tuned tables",
		Example: `  epbench table show --table run
  epbench table lookup --table run --tokens 64 --routing skewed
  epbench table export --table run --format c -o tuned.h`,
		Args: cobra.ArbitraryArgs,
		RunE: needSubcommand,
	}
	for _, c := range tableCommands {
		cmd.AddCommand(c())
	}
	return cmd
}

type sourceFlags struct {
	file        string
	embedded    bool
	layers      bool
	allowEdited bool
}

func (f *sourceFlags) bind(cmd *cobra.Command) {
	f.bindFile(cmd, "default: the compiled-in, system and user tables")
	flags(cmd, forTables, func(s *pflag.FlagSet) {
		s.BoolVar(&f.embedded, "embedded", false, "read only the tables compiled into this program")
		s.BoolVar(&f.layers, "layers", false, "read the compiled-in, system and user tables too; rows of --table replace theirs")
	})
}

// bindFile registers the flags of a command that reads one table. The help of --table ends with `otherwise`.
func (f *sourceFlags) bindFile(cmd *cobra.Command, otherwise string) {
	flags(cmd, forTables, func(s *pflag.FlagSet) {
		s.StringVar(&f.file, "table", "", "`TABLE` a table.json, a run with a table, or the name of a compiled-in table; "+otherwise)
		s.BoolVar(&f.allowEdited, "allow-edited", false, "read a table although it was edited, and mark it")
	})
}

func (f *sourceFlags) open() (*table.Set, error) {
	if f.embedded && (f.layers || f.file != "") {
		return nil, usagef("--embedded: reads the compiled-in tables alone; leave out --table and --layers")
	}
	l := table.Locations{}
	if !f.embedded {
		l = table.DefaultLocations()
	}
	l.Embedded, l.AllowEdited = embedded.FS(), f.allowEdited
	if f.file == "" {
		set, err := table.Open(l)
		return set, badInput(err)
	}
	t, err := loadTable(f.file, f.allowEdited)
	if err != nil {
		return nil, err
	}
	top := table.Source{Name: tablePath(f.file), Table: t}
	if !f.layers {
		return table.Overlay(top), nil
	}
	set, err := table.Open(l)
	if err != nil {
		return nil, badInput(err)
	}
	return table.Overlay(append(set.Sources(), top)...), nil
}

// load returns the table of --table. Without --table there must be exactly one table.
func (f *sourceFlags) load() (*table.Table, error) {
	set, err := f.open()
	if err != nil {
		return nil, err
	}
	sources := set.Sources()
	if len(sources) == 1 {
		return sources[0].Table, nil
	}
	return nil, usagef("--table NAME is required: a table.json, a run%s", orOneOf(sources))
}

func orOneOf(sources []table.Source) string {
	out := ""
	for _, s := range sources {
		out += ", or " + sourceName(s)
	}
	return out
}

// sourceName returns the name by which --table selects a source.
func sourceName(s table.Source) string {
	if name, ok := strings.CutPrefix(s.Name, "embedded/"); ok {
		return strings.TrimSuffix(name, path.Ext(name))
	}
	return s.Name
}

// loadTable reads a table file, the table of a run directory, or a compiled-in table.
func loadTable(name string, allowEdited bool) (*table.Table, error) {
	t, err := table.LoadFile(tablePath(name), allowEdited)
	if err == nil || strings.ContainsAny(name, "/.") {
		return t, badInput(asTable(name, err))
	}
	if _, missing := os.Stat(name); missing == nil {
		return t, badInput(asTable(name, err))
	}
	set, bad := table.Open(table.Locations{Embedded: embedded.FS()})
	if bad != nil {
		return nil, bad
	}
	var known []string
	for _, s := range set.Sources() {
		if known = append(known, sourceName(s)); sourceName(s) == name {
			return s.Table, nil
		}
	}
	return nil, usagef("%s: no such file, and no compiled-in table has that name%s", name,
		ep.DidYouMean(name, known, "; there are "+strings.Join(known, ", ")))
}

const givesTable = "give a table.json, a run directory with one, or the name of a compiled-in table"

func asTable(name string, err error) error {
	if err == nil {
		return nil
	}
	f, bad := os.Open(tablePath(name))
	if bad != nil {
		return ep.FileError(name, bad, givesTable)
	}
	defer f.Close()
	start := make([]byte, 512)
	n, _ := f.Read(start)
	if text := strings.TrimSpace(string(start[:n])); strings.HasPrefix(text, "{") {
		return err
	}
	return fmt.Errorf("%s: not a table; %s", name, givesTable)
}

func tablePath(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, record.TableFile)
	}
	return path
}
