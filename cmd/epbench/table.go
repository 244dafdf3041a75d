package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/table/embedded"
)

// tableCommands lists what can be done with a table, in the order help prints
// it.
var tableCommands = []func() *cobra.Command{
	newTableShow,
	newTableLookup,
	newTableExplain,
	newTableDiff,
	newTableMerge,
	newTableRelax,
	newTableLint,
	newTableVerify,
	newTableExport,
}

func newTable() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "table",
		Short: "Read, compare, check and ship tuned tables",
		Args:  cobra.ArbitraryArgs,
		RunE:  needSubcommand,
	}
	for _, c := range tableCommands {
		cmd.AddCommand(c())
	}
	return cmd
}

// sourceFlags say which tables a command reads.
type sourceFlags struct {
	file        string
	embedded    bool
	layers      bool
	allowEdited bool
}

// bind registers the flags of commands that read a set of tables.
func (f *sourceFlags) bind(cmd *cobra.Command) {
	f.bindFile(cmd)
	s := cmd.Flags()
	s.BoolVar(&f.embedded, "embedded", false, "only the tables compiled into this program")
	s.BoolVar(&f.layers, "layers", false, "put --table on top of the embedded, system and user tables")
}

// bindFile registers the flags of commands that read one table.
func (f *sourceFlags) bindFile(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.file, "table", "", "table, or run directory with one; default: the embedded, system and user tables")
	s.BoolVar(&f.allowEdited, "allow-edited", false, "take a table that was changed after it was written, and mark it")
}

// open reads the tables.
func (f *sourceFlags) open() (*table.Set, error) {
	if f.embedded && (f.layers || f.file != "") {
		return nil, usagef("--embedded: shows the compiled-in tables alone; leave out --table and --layers")
	}
	if f.file != "" && !f.layers {
		t, err := f.load()
		if err != nil {
			return nil, err
		}
		return table.Overlay(table.Source{Name: tablePath(f.file), Table: t}), nil
	}
	l := table.Locations{}
	if !f.embedded {
		l = table.DefaultLocations()
	}
	l.Embedded, l.AllowEdited = embedded.FS(), f.allowEdited
	if f.file != "" {
		l.File = tablePath(f.file)
	}
	set, err := table.Open(l)
	return set, badInput(err)
}

// load reads the one table of --table.
func (f *sourceFlags) load() (*table.Table, error) {
	if f.file == "" {
		return nil, usagef("--table: which table? name a table.json or a run directory")
	}
	return loadTable(f.file, f.allowEdited)
}

func loadTable(path string, allowEdited bool) (*table.Table, error) {
	t, err := table.LoadFile(tablePath(path), allowEdited)
	return t, badInput(err)
}

// tablePath is the table of a run directory, or the file itself.
func tablePath(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, record.TableFile)
	}
	return path
}
