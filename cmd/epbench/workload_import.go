package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/workloads"
	"github.com/epbench/epbench/workloads/trace"
)

// traceFlags say what to read of a file.
type traceFlags struct {
	kind  string
	layer int
	opts  trace.Options
}

func (f *traceFlags) bind(cmd *cobra.Command) {
	s := cmd.Flags()
	s.IntVar(&f.layer, "layer", -1, "layer to read, of a file that has several")
	s.StringVar(&f.kind, "kind", "", "ids or counts; default: by the name of the array, else by its shape")
	s.StringVar(&f.opts.Array, "array", "", "array to read, of a .npz, .pt or .json with several")
	s.BoolVar(&f.opts.TokensFirst, "tokens-first", false, "three axes are tokens, layers, top-k (vLLM), not layers, tokens, top-k (SGLang)")
}

// options checks the flags.
func (f *traceFlags) options() (trace.Options, error) {
	o := f.opts
	switch o.Kind = trace.Kind(f.kind); o.Kind {
	case "", trace.IDs, trace.Counts:
	default:
		return o, usagef("--kind: unknown %q, use ids or counts", f.kind)
	}
	if f.layer < -1 {
		return o, usagef("--layer: %d is below 0", f.layer)
	}
	o.Layer = f.layer
	return o, nil
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
		Use:   "import FILE",
		Short: "Check a recorded routing, measure it, and write it as a trace",
		Long: `Read a recorded routing, however large: top-k ids (and weights) as .npy, .npz,
.csv or .jsonl, or the dumps of SGLang's and vLLM's expert recorders as .pt, .npz,
.npy, .json or .csv. Print what it holds. With -o write one layer of it as a
trace for --routing trace:FILE: ids as .npy, .npz, .csv or .jsonl, counts as .csv.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	o.trace.bind(cmd)
	o.tables.bind(cmd)
	cmd.Flags().IntVar(&o.ranks, "ranks", 8, "ranks to lay the experts over, for the load of ranks")
	cmd.Flags().StringVarP(&o.out, "out", "o", "", "file to write")
	return cmd
}

func (o *importOptions) run(cmd *cobra.Command, file string) error {
	opts, err := o.trace.options()
	if err != nil {
		return err
	}
	if o.ranks < 1 || o.ranks > 1024 {
		return usagef("--ranks: %d is outside 1 to 1024", o.ranks)
	}
	r, err := trace.Open(file, opts)
	if err != nil {
		return badInput(err)
	}
	defer r.Close()
	var s trace.Summary
	if o.out == "" {
		s, err = r.Scan(nil)
	} else {
		s, err = convert(r, file, o.out)
	}
	if err != nil {
		return badInput(err)
	}
	return o.tables.print(cmd, o.summary(file, s))
}

// convert writes what it scans. A file that could not be completed is removed.
func convert(r *trace.Reader, in, out string) (trace.Summary, error) {
	if same(in, out) {
		return trace.Summary{}, fmt.Errorf("-o: %s is the file being read", out)
	}
	write := writeIDs
	if r.Kind == trace.Counts {
		write = writeCounts
	}
	s, err := write(r, out)
	if err != nil {
		os.Remove(out)
	}
	return s, err
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
		return trace.Summary{}, fmt.Errorf("-o: %s: counts are written as .csv", out)
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

func (o *importOptions) summary(file string, s trace.Summary) reports.Table {
	t := reports.Table{
		Name: "trace", Title: filepath.Base(file),
		Columns: []reports.Column{reports.Words("field"), reports.Words("value")},
	}
	add := func(field, value string) { t.Add(reports.Str(field), reports.Str(value)) }
	add("kind", string(s.Kind))
	if s.Kind == trace.IDs {
		add("tokens", strconv.FormatInt(s.Rows, 10))
		add("topk", strconv.Itoa(s.TopK))
		add("masked", strconv.FormatInt(s.Masked, 10))
		add("weights", reports.Bool(s.Weights).Text)
	}
	add("experts", fmt.Sprintf("%d (highest id visited + 1)", len(s.Counts)))
	counts := s.Counts
	for len(counts)%o.ranks != 0 || len(counts) == 0 {
		counts = append(counts, 0)
	}
	m := workloads.MeasureCounts(counts, o.ranks)
	add("selections", strconv.FormatInt(m.Selections, 10))
	add("gini", fmt.Sprintf("%.4f", m.Gini))
	add("max/mean expert", fmt.Sprintf("%.3f", m.MaxMeanExpert))
	add(fmt.Sprintf("max/mean of %d ranks", o.ranks), fmt.Sprintf("%.3f", m.MaxMeanRank))
	add("effective experts", fmt.Sprintf("%.1f", m.EffectiveExperts))
	add("top20", fmt.Sprintf("%.1f %%", 100*m.Top20Share))
	return t
}
