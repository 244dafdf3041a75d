package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/workloads"
	"github.com/epbench/epbench/workloads/trace"
)

type traceFlags struct {
	kind, axes string
	opts       trace.Options
}

func (f *traceFlags) bind(s *pflag.FlagSet) {
	s.IntVar(&f.opts.Layer, "layer", -1, "`N` layer to read, if a file has several")
	s.StringVar(&f.kind, "kind", "", "`KIND` what the array holds: ids, counts or logits; default: known from its name, else from its shape")
	s.StringVar(&f.opts.Array, "array", "", "`NAME` array to read, if a .npz, .pt, .safetensors or .json file has several")
	s.StringVar(&f.axes, "axes", "", "`LIST` names of the array's axes in order, such as layers,ranks,experts; possible names: steps, layers, ranks, experts, tokens, topk; default: known from the array's name")
}

func (f *traceFlags) options() (trace.Options, error) {
	o := f.opts
	switch o.Kind = trace.Kind(f.kind); o.Kind {
	case "", trace.IDs, trace.Counts, trace.Logits:
	default:
		return o, usagef("--kind: unknown %q, use ids, counts or logits", f.kind)
	}
	if o.Layer < -1 {
		return o, usagef("--layer: %d is below 0", o.Layer)
	}
	if f.axes == "" {
		return o, nil
	}
	axes, err := trace.ParseAxes(f.axes)
	if err != nil {
		return o, usagef("--axes: %v", err)
	}
	o.Axes = axes
	return o, nil
}

// scan opens a recording, calls `read`, and prints notes about the files.
func (f *traceFlags) scan(cmd *cobra.Command, files []string, read func(*trace.Reader) (trace.Summary, error)) (trace.Summary, error) {
	o, err := f.options()
	if err != nil {
		return trace.Summary{}, err
	}
	r, err := trace.OpenAll(files, o)
	if err != nil {
		return trace.Summary{}, badInput(err)
	}
	defer r.Close()
	s, err := read(r)
	for _, n := range r.Notes() {
		fmt.Fprintln(cmd.ErrOrStderr(), "note: "+n)
	}
	return s, badInput(err)
}

type importOptions struct {
	trace  traceFlags
	tables tableFlags
	ranks  int
	out    string
}

func newWorkloadImport() *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Check a recorded routing, print its skew, and write it as a trace",
		Long: `Read a recorded routing of any size: top-k ids (and weights) as .npy, .npz, .csv or
.jsonl, or a dump of the expert recorders of SGLang, vLLM, vllm-ascend and TensorRT-LLM
as .pt, .npz, .npy, .safetensors, .json or .csv. Several files, a folder or a pattern
are one recording: counts are added up, tokens follow each other. Print a summary.
With -o FILE, write one layer; --routing trace:FILE then uses it. Ids can be written as
.npy, .npz, .csv or .jsonl, and counts as .csv.`,
		Example: `  epbench workload import expert_distribution.pt --layer 12 -o layer12.csv
  epbench workload import 'moe_load_*.npy' --layer 3 --axes layers,ranks,experts
  epbench workload import logits.npy --kind logits --topk 8`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	flags(cmd, forProblem, func(s *pflag.FlagSet) {
		o.trace.bind(s)
		s.IntVar(&o.trace.opts.TopK, "topk", 0, "`N` experts per token; required for router logits, which do not hold this number")
		s.IntVar(&o.ranks, "ranks", 8, "`N` number of ranks that share the experts, for the loads of ranks")
	})
	flags(cmd, forOutput, func(s *pflag.FlagSet) { s.StringVarP(&o.out, "out", "o", "", "`FILE` file to write") })
	o.tables.bind(cmd)
	return cmd
}

func (o *importOptions) run(cmd *cobra.Command, files []string) error {
	if o.ranks < 1 || o.ranks > ep.MaxRanks {
		return usagef("--ranks: %d is outside 1 to %d", o.ranks, ep.MaxRanks)
	}
	files, err := trace.Expand(files)
	if err != nil {
		return badInput(err)
	}
	for _, f := range files {
		if same(f, o.out) {
			return usagef("-o: %s is the file being read", o.out)
		}
	}
	s, err := o.trace.scan(cmd, files, func(r *trace.Reader) (trace.Summary, error) { return o.write(cmd, r) })
	if err != nil {
		return err
	}
	if o.out == "-" {
		return nil
	}
	name := filepath.Base(files[0])
	if len(files) > 1 {
		name = fmt.Sprintf("%s and %d more", name, len(files)-1)
	}
	return o.tables.print(cmd, o.summary(name, s))
}

func (o *importOptions) write(cmd *cobra.Command, r *trace.Reader) (s trace.Summary, err error) {
	if o.out == "" {
		return r.Scan(nil)
	}
	err = writeTrace(cmd, o.out, func(path string) error {
		if r.Kind == trace.Counts {
			s, err = writeCounts(r, path)
		} else {
			s, err = writeIDs(r, path)
		}
		return err
	})
	return s, err
}

// writeTrace calls `write` with a temporary path and then copies that file to `out`, so that a failure leaves an older
// file intact. For "-" it prints CSV.
func writeTrace(cmd *cobra.Command, out string, write func(path string) error) error {
	ext, dir := filepath.Ext(out), filepath.Dir(out)
	if info, err := os.Stat(out); out == "-" || err == nil && !info.Mode().IsRegular() {
		dir = ""
	}
	if out == "-" {
		ext = ".csv"
	}
	record.RemoveStale(filepath.Join(cmp.Or(dir, os.TempDir()), ".epbench-*"))
	temp, err := os.MkdirTemp(dir, ".epbench-*")
	if err != nil {
		return fmt.Errorf("-o: %s: %w", out, errors.Unwrap(err))
	}
	defer os.RemoveAll(temp)
	path := filepath.Join(temp, "trace"+ext)
	if err := write(path); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), path, out))
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return writeOut(cmd, out, f)
}

func writeIDs(r *trace.Reader, out string) (trace.Summary, error) {
	w, err := trace.Create(out, r.TopK, r.Weights)
	if err != nil {
		return trace.Summary{}, fmt.Errorf("-o: %w", err)
	}
	s, err := r.Scan(w)
	return s, errors.Join(err, w.Close())
}

func writeCounts(r *trace.Reader, out string) (trace.Summary, error) {
	if filepath.Ext(out) != ".csv" {
		return trace.Summary{}, fmt.Errorf("-o: %s: counts need a .csv file", out)
	}
	f, err := os.Create(out)
	if err != nil {
		return trace.Summary{}, fmt.Errorf("-o: %w", err)
	}
	s, err := r.Scan(nil)
	if err == nil {
		err = trace.WriteCounts(f, s.Counts)
	}
	return s, errors.Join(err, f.Close())
}

func same(a, b string) bool {
	ia, errA := os.Stat(a)
	ib, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(ia, ib)
}

func (o *importOptions) summary(name string, s trace.Summary) reports.Table {
	t := newFacts("trace", name)
	t.add("kind", "%s", s.Kind)
	if s.Kind == trace.IDs {
		t.add("tokens", "%d", s.Rows)
		t.add("topk", "%d", s.TopK)
		t.add("masked", "%d", s.Masked)
		t.add("weights", "%s", reports.Bool(s.Weights).Text)
	}
	t.add("experts", "%d (highest id + 1)", len(s.Counts))
	counts := s.Counts
	for len(counts)%o.ranks != 0 || len(counts) == 0 {
		counts = append(counts, 0)
	}
	m := workloads.MeasureCounts(counts, o.ranks)
	t.add("selections", "%d", m.Selections)
	t.add("gini", "%.4f", m.Gini)
	t.add("max/mean expert", "%.3f", m.MaxMeanExpert)
	t.add(fmt.Sprintf("max/mean of %d ranks", o.ranks), "%.3f", m.MaxMeanRank)
	t.add("effective experts", "%.1f", m.EffectiveExperts)
	t.add("top20", "%.1f %%", 100*m.Top20Share)
	return t.Table
}
