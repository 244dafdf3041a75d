package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/tune/table/export"
)

func newTableExport() *cobra.Command {
	var from sourceFlags
	var format, path string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write a table for production: " + exportNames(),
		Long:  "Write a table in the language of the runtime that will use it.\n\n" + exportDocs(),
		Example: `  epbench table export --table run --format c -o tuned.h
  epbench table export --table h200x4 --format python -o tuned.py
  epbench table export --table run --format csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := export.Find(format)
			if err != nil {
				return usagef("--format: %w", err)
			}
			t, err := from.load()
			if err != nil {
				return err
			}
			files, err := e.Files(t, baseName(path))
			if err != nil {
				return err
			}
			if path == "" || path == "-" {
				return printExport(cmd.OutOrStdout(), files)
			}
			return writeExport(cmd, path, files)
		},
	}
	from.bindFile(cmd, "default: the only one there is")
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVar(&format, "format", "go", "`LANGUAGE`: "+exportNames())
		s.StringVarP(&path, "out", "o", "", "main `FILE` to write; default: standard output")
	})
	return cmd
}

func exportNames() string {
	var names []string
	for _, e := range export.Exporters {
		names = append(names, e.Name)
	}
	return strings.Join(names, ", ")
}

func exportDocs() string {
	var b strings.Builder
	for _, e := range export.Exporters {
		fmt.Fprintf(&b, "  %-7s %s\n", e.Name, e.Doc)
	}
	return b.String()
}

// baseName is what names in the export are made of.
func baseName(path string) string {
	if path == "" {
		return "tuned"
	}
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}

// printExport writes the main file; a format of several files needs -o.
func printExport(w io.Writer, files []export.File) error {
	if len(files) > 1 {
		return usagef("-o: this format writes %d files beside each other; name the main one", len(files))
	}
	_, err := w.Write(files[0].Data)
	return err
}

// writeExport writes the main file to path and the others beside it.
func writeExport(cmd *cobra.Command, path string, files []export.File) error {
	for i, f := range files {
		name := path
		if i > 0 {
			name = filepath.Join(filepath.Dir(path), f.Name)
		}
		if err := writeOut(cmd, name, bytes.NewReader(f.Data)); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s\n", name)
	}
	return nil
}
