package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/workloads"
	"github.com/epbench/epbench/workloads/trace"
)

type fitOptions struct {
	trace   traceFlags
	tables  tableFlags
	topK    int
	experts int
}

func newWorkloadFit() *cobra.Command {
	var o fitOptions
	cmd := &cobra.Command{
		Use:   "fit TRACE...",
		Short: "Find the distribution nearest to a recorded routing",
		Example: `  epbench workload fit topk_ids.npy
  epbench workload fit expert_distribution.pt --layer 12
  epbench workload fit counts.csv --topk 8 --experts 256`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	flags(cmd, forProblem, func(s *pflag.FlagSet) {
		o.trace.bind(s)
		s.IntVar(&o.topK, "topk", 0, "`N` experts per token; required for a file of counts, which does not hold this number")
		s.IntVar(&o.experts, "experts", 0, "`N` routed experts; default: the highest id + 1")
	})
	o.tables.bind(cmd)
	return cmd
}

func (o *fitOptions) run(cmd *cobra.Command, files []string) error {
	o.trace.opts.TopK = o.topK
	s, err := o.trace.scan(cmd, files, func(r *trace.Reader) (trace.Summary, error) { return r.Scan(nil) })
	if err != nil {
		return err
	}
	counts, topK, err := o.shape(s)
	if err != nil {
		return badInput(err)
	}
	fits, noise, err := workloads.FitCounts(counts, topK)
	if err != nil {
		return badInput(err)
	}
	return o.tables.print(cmd, fitTable(fits, noise))
}

func (o *fitOptions) shape(s trace.Summary) ([]int64, int, error) {
	counts, topK := s.Counts, s.TopK
	if s.Kind == trace.Counts {
		if topK = o.topK; topK < 1 || topK > trace.MaxTopK {
			return nil, 0, fmt.Errorf("--topk: %d is outside 1 to %d; a file of counts does not hold how many experts a token selects", topK, trace.MaxTopK)
		}
	}
	if o.experts == 0 {
		return counts, topK, nil
	}
	if o.experts < len(counts) || o.experts > trace.MaxExperts {
		return nil, 0, fmt.Errorf("--experts: %d is outside %d to %d; the lower bound is the highest id + 1", o.experts, len(counts), trace.MaxExperts)
	}
	return append(counts, make([]int64, o.experts-len(counts))...), topK, nil
}

func fitTable(fits []workloads.Fit, noise float64) reports.Table {
	t := reports.Table{
		Name: "fit", Title: "Distributions, nearest first",
		Columns: []reports.Column{reports.Words("routing"), reports.Numbers("distance", "%")},
		Notes: []string{
			"distance: the share of selections that must move to another expert so that the sorted loads are equal to the recorded ones",
			fmt.Sprintf("noise: a recording of this size, drawn from the distribution itself, is about %.2f %% away from it; fits nearer than that cannot be told apart", 100*noise),
		},
	}
	for _, f := range fits {
		t.Add(reports.Str(f.Spec), reports.Float(100*f.Distance, 2))
	}
	if fits[0].Distance > 0.1 {
		t.Warn("no distribution is near; use the recording itself: --routing trace:FILE")
	}
	return t
}
