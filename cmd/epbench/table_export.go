package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/engines"
	"github.com/epbench/epbench/tune/table/export"
)

func newTableExport() *cobra.Command {
	var from sourceFlags
	var format, path, mix string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write a table for production: " + exportNames(),
		Long:  exportDocs(),
		Example: `  epbench table export --table run --format c -o tuned.h
  epbench table export --table h200x4 --format python -o tuned.py
  epbench table export --table deepep-run --format sglang --mix 128=3,4096`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if e, ok := engines.Find(format); ok {
				return exportEngine(cmd, e, from.file, mix, path)
			}
			if mix != "" {
				return usagef("--mix: only for the formats of engines: %s", engineNames())
			}
			e, err := export.Find(format)
			if err != nil {
				return usagef("--format: %w, %s", err, engineNames())
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
	from.bindFile(cmd, "default: the only table there is")
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVar(&format, "format", "go", "`FORMAT` what to write: "+exportNames()+", "+engineNames())
		s.StringVar(&mix, "mix", "", "`TOKENS=WEIGHT` for formats of engines: how often calls of each token count occur, comma-separated; default: all token counts of the run, equally often")
		s.StringVarP(&path, "out", "o", "", "`FILE` file to write, or the first file if the format has several; default: standard output")
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

func engineNames() string {
	var names []string
	for _, e := range engines.Exporters {
		names = append(names, e.Name)
	}
	return strings.Join(names, ", ")
}

// exportEngine writes an engine's file from a run of the library that the engine calls.
func exportEngine(cmd *cobra.Command, e engines.Exporter, run, mix, path string) error {
	if run == "" {
		return usagef("--table RUN is required: the run directory that measured the library")
	}
	l, err := reports.Load(run)
	if err != nil {
		return badInput(fmt.Errorf("--table: %s needs the run directory, with its trials: %w", e.Name, err))
	}
	in := engines.Input{Run: l}
	if in.Mix, err = parseMix(mix); err != nil {
		return err
	}
	out, err := e.Write(in)
	if err != nil {
		return badInput(fmt.Errorf("--format %s: %w", e.Name, err))
	}
	for _, n := range out.Notes {
		fmt.Fprintln(cmd.ErrOrStderr(), n)
	}
	if path == "" || path == "-" {
		if !utf8.Valid(out.Data) && widthOf(cmd.OutOrStdout()) > 0 {
			return usagef("-o FILE is required: %s is not text, and standard output is a terminal", e.Name)
		}
		_, err := cmd.OutOrStdout().Write(out.Data)
		return err
	}
	return writeExport(cmd, path, []export.File{{Name: filepath.Base(path), Data: out.Data}})
}

// parseMix reads weights by token count, such as 128=3,4096. The default weight is 1.
func parseMix(s string) (map[int]float64, error) {
	out := map[int]float64{}
	for _, word := range splitList(s) {
		tokens, weight, given := strings.Cut(word, "=")
		n, err := strconv.Atoi(tokens)
		w := 1.0
		if err == nil && given {
			w, err = strconv.ParseFloat(weight, 64)
		}
		if err != nil || n < 0 || !(w > 0) || math.IsInf(w, 0) {
			return nil, usagef("--mix: %q is not tokens=weight, as in 128=3", word)
		}
		out[n] = w
	}
	return out, nil
}

func exportDocs() string {
	var b strings.Builder
	b.WriteString("Write a table in the language of the runtime that will use it.\n\n")
	for _, e := range export.Exporters {
		fmt.Fprintf(&b, "  %-7s %s\n", e.Name, e.Doc)
	}
	b.WriteString("\nFor engines that call other libraries, from a run directory that measured the library\n(--table RUN):\n")
	for _, e := range engines.Exporters {
		fmt.Fprintf(&b, "  %-14s %s\n", e.Name, e.Doc)
	}
	return b.String()
}

func baseName(path string) string {
	if path == "" {
		return "tuned"
	}
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}

func printExport(w io.Writer, files []export.File) error {
	if len(files) > 1 {
		return usagef("-o: this format writes %d files into one folder; name the main one", len(files))
	}
	_, err := w.Write(files[0].Data)
	return err
}

// writeExport writes the first file to the path, and the other files into the same folder.
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
