package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
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

// replayModels returns a model for each search in `paths`, and the protocol of the first machine.
func replayModels(paths []string, starts replay.Starts) ([]*replay.Model, search.Protocol, error) {
	var out []*replay.Model
	protocol := search.OnGPU() // for spaces of other tuners, which measured on GPUs
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

// warningsOf returns the distinct warnings of the first n models.
func warningsOf(draw func(int) *replay.Model, n int) []string {
	var out []string
	for i := range n {
		if w := draw(i).Warning; w != "" && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// isSpace reports whether a path is named like a file with another tuner's search space. It is true for a missing file
// too, so that spaceModel returns the error.
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
	var out, as string
	cmd := &cobra.Command{
		Use:   "save RUN...",
		Short: "Keep the searches of runs as small recordings",
		Long: `Write one file, a recording, for each search of the runs. A recording holds the time of
the slowest rank in every round of every config. It takes about 40 bytes for each config;
the log of a run takes several thousand.

--as t4 and --as cache write files for other tuners instead, with the mean times of rounds.
t4 writes two files for each kernel: KERNEL_T4.json with the times and KERNEL_T1.json with
the space. cache writes a cache file of Kernel Tuner for its simulation mode.`,
		Example: `  epbench replay save run -o recordings
  epbench replay save run --as cache -o kernel-tuner
  epbench replay recordings --starts none --budget 50,100`,
		Args: minArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usagef("-o DIR is required, for example -o recordings")
			}
			save, ok := savers[as]
			if !ok {
				return usagef("--as: unknown %q, use one of recording, t4, cache", as)
			}
			return saveRecordings(cmd, args, out, save)
		},
	}
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVarP(&out, "out", "o", "", "`DIR` directory to write recordings to")
		s.StringVar(&as, "as", "recording", "`FORMAT` recording, t4 (with T1), cache (of Kernel Tuner)")
	})
	return cmd
}

// savers maps values of --as to functions that write a recording and return the path.
var savers = map[string]func(dir string, r *record.Recording) (path string, err error){
	"recording": func(dir string, r *record.Recording) (string, error) {
		path := filepath.Join(dir, r.Name())
		return path, record.WriteFile(path, r)
	},
	"t4": func(dir string, r *record.Recording) (string, error) {
		return eachKernel(dir, r, func(s *exchange.Space, base string) error {
			err := record.WriteFile(base+"_T4.json", record.Content(s.WriteT4))
			return cmp.Or(err, record.WriteFile(base+"_T1.json", record.Content(func(w io.Writer) error { return s.WriteT1(w, s.Name) })))
		})
	},
	"cache": func(dir string, r *record.Recording) (string, error) {
		return eachKernel(dir, r, func(s *exchange.Space, base string) error {
			return record.WriteFile(base+".json", record.Content(func(w io.Writer) error { return s.WriteCache(w, r.Machine.Name, s.Name) }))
		})
	},
}

// eachKernel calls `write` for each kernel, with a path to which `write` adds an extension. It returns the folder.
func eachKernel(dir string, r *record.Recording, write func(s *exchange.Space, base string) error) (string, error) {
	folder := filepath.Join(dir, strings.TrimSuffix(r.Name(), record.RecordingExt))
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return folder, err
	}
	for _, s := range replay.Exchanged(r) {
		if err := write(s, filepath.Join(folder, s.Name)); err != nil {
			return folder, err
		}
	}
	return folder, nil
}

func saveRecordings(cmd *cobra.Command, runs []string, dir string, save func(string, *record.Recording) (string, error)) error {
	all, err := recordingsOf(runs)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return badInput(errors.New(strings.Join(runs, ", ") + ": no search of these runs has ended"))
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return badInput(err)
	}
	for _, r := range all {
		path, err := save(dir, r)
		if err != nil {
			return badInput(err)
		}
		whole := "every config was measured"
		if !r.Complete() {
			whole = "some configs were not measured"
		}
		fmt.Fprintf(wrapping(cmd.OutOrStdout(), terminalWidth(cmd)), "%s: %d of %d configs, %s; a config takes %.3g s, a sample %.3g s\n",
			path, len(r.Points), r.Search.Legal, whole, r.Search.Pace.Config, r.Search.Pace.Sample)
	}
	return nil
}
