package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/search/exchange"
	"github.com/epbench/epbench/tune/search/replay"
	"github.com/epbench/epbench/tune/sweep/measure"
)

// replayModels reads runs, recordings and spaces that other tuners measured. It returns a model
// for each search, and the protocol of the machine of the first run or recording.
func replayModels(paths []string, starts replay.Starts) ([]*replay.Model, search.Protocol, error) {
	var out []*replay.Model
	protocol := search.OnGPU() // other tuners measured their spaces on GPUs
	for i, path := range paths {
		if isSpace(path) {
			m, err := spaceModel(path)
			if err != nil {
				return nil, protocol, err
			}
			out = append(out, m)
			continue
		}
		recordings, err := recordingsOf([]string{path})
		if err != nil {
			return nil, protocol, err
		}
		models, err := replay.FromRecordings(recordings, starts)
		if err != nil {
			return nil, protocol, badInput(err)
		}
		if i == 0 && len(recordings) > 0 {
			protocol = measure.PolicyFor(recordings[0].Machine).Protocol
		}
		out = append(out, models...)
	}
	if len(out) == 0 {
		return nil, protocol, badInput(errors.New(paths[0] + ": no search measured enough configs to replay"))
	}
	return out, protocol, nil
}

// warningsOf returns the warnings of the first n models that draw returns, without repetitions.
func warningsOf(draw func(int) *replay.Model, n int) []string {
	var out []string
	for i := range n {
		if w := draw(i).Warning; w != "" && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// isSpace reports whether a path is the name of a space that another tuner measured. The file need not exist: reading
// it later returns an error that says so.
func isSpace(path string) bool {
	info, err := os.Stat(path)
	return exchange.Has(path) && (err != nil || !info.IsDir())
}

func spaceModel(path string) (*replay.Model, error) {
	s, err := exchange.ReadFile(path)
	if err != nil {
		return nil, badInput(err)
	}
	m, err := replay.FromSpace(s)
	if err != nil {
		return nil, badInput(err)
	}
	return m, nil
}

// recordingsOf returns the recordings at paths. A path may be a recording, a directory of recordings, or a run
// directory. It converts the searches of a run directory to recordings.
func recordingsOf(paths []string) ([]*record.Recording, error) {
	var out []*record.Recording
	for _, path := range paths {
		found, err := recordingsIn(path)
		if err != nil {
			return nil, badInput(err)
		}
		out = append(out, found...)
	}
	return out, nil
}

func recordingsIn(path string) ([]*record.Recording, error) {
	if strings.HasSuffix(path, record.RecordingExt) {
		r, err := record.ReadRecordingFile(path)
		return []*record.Recording{r}, err
	}
	files, err := filepath.Glob(filepath.Join(path, "*"+record.RecordingExt))
	if err != nil || len(files) == 0 {
		run, results, _, err := record.ReadDir(path)
		if err != nil {
			return nil, err
		}
		return record.Recordings(run, results), nil
	}
	slices.Sort(files)
	var out []*record.Recording
	for _, f := range files {
		r, err := record.ReadRecordingFile(f)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func newReplaySave() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "save RUN...",
		Short: "Keep the searches of runs as small recordings",
		Long: `Write one file for each search of the runs. A recording holds the time of the slowest
rank in every round of every config: about 40 bytes for each config, where the log
of a run takes several thousand.`,
		Example: `  epbench replay save run -o recordings
  epbench replay save runs/* -o recordings
  epbench replay recordings --starts none --budget 50,100`,
		Args: minArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usagef("-o DIR is required, for instance -o recordings")
			}
			return saveRecordings(cmd, args, out)
		},
	}
	flags(cmd, forOutput, func(s *pflag.FlagSet) { s.StringVarP(&out, "out", "o", "", "`DIR` directory to write recordings to") })
	return cmd
}

func saveRecordings(cmd *cobra.Command, runs []string, dir string) error {
	all, err := recordingsOf(runs)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return badInput(errors.New(strings.Join(runs, ", ") + ": none of their searches has ended"))
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return badInput(err)
	}
	for _, r := range all {
		path := filepath.Join(dir, r.Name())
		if err := record.WriteFile(path, r); err != nil {
			return badInput(err)
		}
		whole := "whole"
		if !r.Complete() {
			whole = "in part"
		}
		fmt.Fprintf(wrapping(cmd.OutOrStdout(), terminalWidth(cmd)), "%s: %d of %d configs, %s; a config takes %.3g s, a sample %.3g s\n",
			path, len(r.Points), r.Search.Legal, whole, r.Search.Pace.Config, r.Search.Pace.Sample)
	}
	return nil
}
