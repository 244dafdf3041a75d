package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/chart"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/workloads"
	"github.com/epbench/epbench/workloads/trace"
)

type balanceOptions struct {
	trace      traceFlags
	tables     tableFlags
	plan       workloads.BalanceOptions
	hidden     int
	expertSize string
	out, plot  string
}

func newWorkloadBalance() *cobra.Command {
	var o balanceOptions
	cmd := &cobra.Command{
		Use:   "balance TRACE... --redundant N",
		Short: "Show how EPLB's placement and replicas would change the load",
		Long: `Place the experts of a recorded routing on ranks by EPLB (deepseek-ai/EPLB, eplb.py),
with N slots for replicas. EPLB uses its global policy, or its hierarchical policy if
--nodes and --groups are given. For a recording of ids the plan is made from the first
half of the tokens and judged with the second half. A recording of counts has no order,
so the plan is judged with the same counts.
Print the imbalance by expert, rank and pair of ranks, both for experts in equal blocks
and for the plan. Also print the memory of the replicas, and the number of tokens after
which the plan has saved more bytes than its copies cost.`,
		Example: `  epbench workload balance layer12.npz --redundant 32 --ranks 32
  epbench workload balance counts.csv --redundant 8 --expert-size 44MiB
  epbench workload balance served.npz --redundant 32 -o slots.npz --plot b.svg`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	flags(cmd, forProblem, func(s *pflag.FlagSet) {
		o.trace.bind(s)
		s.IntVar(&o.trace.opts.TopK, "topk", 0, "`N` experts per token; required for router logits, which do not hold this number")
		s.IntVar(&o.plan.Ranks, "ranks", 8, "`N` number of ranks that share the experts")
		s.IntVar(&o.plan.Redundant, "redundant", 0, "`N` number of slots of all ranks together, in addition to one for each expert")
		s.IntVar(&o.plan.Experts, "experts", 0, "`N` routed experts; default: the highest id + 1, rounded up to a multiple of --ranks")
		s.IntVar(&o.plan.Hosts, "nodes", 1, "`N` number of hosts, in equal blocks of ranks; with --groups the plan keeps a group of experts on one host")
		s.IntVar(&o.plan.Groups, "groups", 1, "`N` groups of experts from which the router selects (8: DeepSeek-V3)")
		s.IntVar(&o.plan.Windows, "windows", 20, "`N` number of parts of the second half; the worst part is printed, and the picture shows all")
		s.IntVar(&o.hidden, "hidden", 7168, "`N` hidden size, for the bytes of a token")
		s.StringVar(&o.expertSize, "expert-size", "42MiB", "`SIZE` weights of one expert of one layer (42MiB: DeepSeek-V3 in FP8)")
	})
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVarP(&o.out, "out", "o", "", "`FILE` write the second half with slots in place of experts, for --routing trace:FILE")
		s.StringVar(&o.plot, "plot", "", "`FILE` draw the busiest rank over the second half, as .svg, .png or .pdf")
	})
	o.tables.bind(cmd)
	return cmd
}

func (o *balanceOptions) run(cmd *cobra.Command, files []string) error {
	size, err := parseSize(o.expertSize)
	if err != nil {
		return usagef("--expert-size: %v", err)
	}
	switch {
	case o.plan.Ranks < 1 || o.plan.Ranks > ep.MaxRanks:
		return usagef("--ranks: %d is outside 1 to %d", o.plan.Ranks, ep.MaxRanks)
	case o.plan.Redundant < 0 || o.plan.Redundant > trace.MaxExperts:
		return usagef("--redundant: %d is outside 0 to %d", o.plan.Redundant, trace.MaxExperts)
	case o.plan.Experts < 0 || o.plan.Experts > trace.MaxExperts:
		return usagef("--experts: %d is outside 0 to %d", o.plan.Experts, trace.MaxExperts)
	case o.plan.Hosts < 1 || o.plan.Hosts > workloads.MaxBalanceHosts || o.plan.Ranks%o.plan.Hosts != 0:
		return usagef("--nodes: %d hosts for %d ranks; give a number of hosts from 1 to %d that divides the number of ranks", o.plan.Hosts, o.plan.Ranks, workloads.MaxBalanceHosts)
	case o.plan.Groups < 1 || o.plan.Groups > trace.MaxExperts:
		return usagef("--groups: %d is outside 1 to %d", o.plan.Groups, trace.MaxExperts)
	case o.plan.Windows < 1 || o.plan.Windows > 10_000:
		return usagef("--windows: %d is outside 1 to 10000", o.plan.Windows)
	case o.hidden < 1 || o.hidden > ep.MaxHidden:
		return usagef("--hidden: %d is outside 1 to %d", o.hidden, ep.MaxHidden)
	}
	opts, err := o.trace.options()
	if err != nil {
		return err
	}
	r, err := o.judge(cmd, files, opts)
	if err != nil {
		return badInput(err)
	}
	if o.plot != "" {
		if err := o.draw(filepath.Base(files[0]), r); err != nil {
			return err
		}
	}
	if o.out == "-" {
		return nil
	}
	return o.tables.print(cmd, o.table(filepath.Base(files[0]), r, size))
}

func (o *balanceOptions) judge(cmd *cobra.Command, files []string, opts trace.Options) (r *workloads.BalanceResult, err error) {
	open := func() (*trace.Reader, error) { return trace.OpenAll(files, opts) }
	if o.out == "" {
		return workloads.JudgeBalance(open, o.plan, nil)
	}
	err = writeTrace(cmd, o.out, func(path string) error {
		r, err = workloads.JudgeBalance(open, o.plan, func(topK int, weights bool) (trace.Writer, error) { return trace.Create(path, topK, weights) })
		if err == nil && r.Judged == 0 {
			err = fmt.Errorf("-o: %s: a recording of counts has no tokens to write", o.out)
		}
		return err
	})
	return r, err
}

func (o *balanceOptions) draw(name string, r *workloads.BalanceResult) error {
	if len(r.Windows) == 0 {
		return badInput(fmt.Errorf("--plot: a recording of counts has no order of tokens to draw"))
	}
	format := strings.TrimPrefix(filepath.Ext(o.plot), ".")
	fig := chart.BalanceFigure(name, r)
	err := record.WriteFile(o.plot, record.Content(func(w io.Writer) error { return fig.Write(w, format, chart.DefaultScale) }))
	if err != nil {
		return badInput(fmt.Errorf("--plot: %w", err))
	}
	return nil
}

func (o *balanceOptions) table(name string, r *workloads.BalanceResult, size int64) reports.Table {
	t := reports.Table{Name: "balance", Title: fmt.Sprintf("%s: %d experts and %d redundant slots on %d ranks", name, r.Experts, o.plan.Redundant, o.plan.Ranks),
		Columns: []reports.Column{reports.Words("busiest over mean"), reports.Numbers("equal blocks", ""), reports.Numbers("EPLB", "")}}
	add := func(what string, before, after float64) {
		t.Add(reports.Str(what), reports.Float(before, 3), reports.Float(after, 3))
	}
	add("expert, or replica of it", r.Before.MaxMeanSlot(), r.After.MaxMeanSlot())
	add("rank", r.Before.MaxMeanRank(), r.After.MaxMeanRank())
	if o.plan.Hosts > 1 {
		add("host", r.Before.MaxMeanHost(o.plan.Hosts), r.After.MaxMeanHost(o.plan.Hosts))
	}
	if r.Judged > 0 {
		worst := workloads.BalanceWindow{}
		for _, w := range r.Windows {
			worst.Before, worst.After = max(worst.Before, w.Before), max(worst.After, w.After)
		}
		add(fmt.Sprintf("rank, worst of %d windows", len(r.Windows)), worst.Before, worst.After)
		add("rank to another rank", r.Before.MaxMeanPair(), r.After.MaxMeanPair())
	}
	t.Note(o.basis(r), o.remote(r), o.memory(size), o.worth(r, size))
	return t
}

// remote says how many hosts a token reaches besides its own.
func (o *balanceOptions) remote(r *workloads.BalanceResult) string {
	if o.plan.Hosts < 2 || r.Judged == 0 {
		return ""
	}
	n := float64(r.Judged)
	return fmt.Sprintf("hosts: if experts are in equal blocks, a token reaches %.3f hosts besides its own; with EPLB, %.3f", float64(r.Before.Remote)/n, float64(r.After.Remote)/n)
}

func (o *balanceOptions) policy() string {
	switch {
	case o.plan.Hosts < 2 || o.plan.Groups < 2:
		return "global policy"
	case o.plan.Groups%o.plan.Hosts != 0:
		return fmt.Sprintf("global policy, because %d groups cannot be divided evenly among %d hosts", o.plan.Groups, o.plan.Hosts)
	}
	return fmt.Sprintf("hierarchical policy: %d groups on %d hosts", o.plan.Groups, o.plan.Hosts)
}

func (o *balanceOptions) basis(r *workloads.BalanceResult) string {
	if r.Judged == 0 {
		return "EPLB: deepseek-ai/EPLB, " + o.policy() + "; counts have no order, so the plan is judged with the counts from which it was made, the best case"
	}
	return fmt.Sprintf("EPLB: deepseek-ai/EPLB, %s, planned from the first %d tokens, judged with the next %d tokens; the replicas of an expert serve its tokens in turn, and each rank has an equal block of the tokens of a window", o.policy(), r.Planned, r.Judged)
}

func (o *balanceOptions) memory(size int64) string {
	slots := (o.plan.Redundant + o.plan.Ranks - 1) / o.plan.Ranks
	return fmt.Sprintf("memory: %d more experts on each rank, %s for each layer (--expert-size %s)", slots, mebibytes(int64(slots)*size), o.expertSize)
}

// worth says after how many tokens a plan pays off. A rank first fetches copies of experts, and then the plan saves
// bytes with every token.
func (o *balanceOptions) worth(r *workloads.BalanceResult, size int64) string {
	copies := int64(r.Copies) * size
	if r.Judged == 0 {
		return fmt.Sprintf("copies: a rank fetches up to %d experts, %s; a recording of counts does not say how many tokens it has", r.Copies, mebibytes(copies))
	}
	message := workloads.MessageBytes(ep.FP8, o.hidden, r.TopK) + workloads.CombineBytes(o.hidden)
	saved := r.Before.Busiest() - r.After.Busiest()
	if saved <= 0 {
		return fmt.Sprintf("copies: a rank fetches up to %d experts, %s, and the busiest rank receives as much as before: never worth it", r.Copies, mebibytes(copies))
	}
	perToken := float64(saved) * float64(message) / float64(r.Judged)
	return fmt.Sprintf("copies: a rank fetches up to %d experts, %s for each layer; worth it if the plan holds for %.0f tokens or more, counting only wire bytes (%d to send a token to one expert and back: FP8 dispatch and BF16 combine with hidden size %d)",
		r.Copies, mebibytes(copies), math.Ceil(float64(copies)/perToken), message, o.hidden)
}
