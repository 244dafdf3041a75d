package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/kernels/model"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/reports/chart"
	"github.com/epbench/epbench/reports/predict"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/workloads"
)

type planFlags struct {
	models    string
	ops       string
	dtypes    string
	routings  string
	ranks     string
	tokens    string
	precision string
	perHost   int
	host      string
	network   string
	seed      uint64
	out       string
	tables    tableFlags
}

func newModelPlan() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan MODEL.yaml",
		Short: "Predict times for up to 2,048 ranks, and what limits them",
		Long: `Predict times of dispatch and combine for presets, routings and rank counts. plan makes
random tokens of each routing and counts the bytes of each rank and each link. The busiest
rank and the busiest link determine the time. With -o, the command also draws the times
against rank counts, with a marker for the limit of each time.`,
		Example: `  epbench model plan model.yaml --ranks 8:2048:x2 --routing zipf:1.0
  epbench model plan model.yaml --model deepseek-v3,kimi-k2 -o plan.svg
  epbench model plan model.yaml --op dispatch --tokens 128,4096 --per-host 4`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags(cmd, forProblem, func(s *pflag.FlagSet) {
		s.StringVar(&f.models, "model", "deepseek-v3", "`PRESETS` models, comma-separated; epbench presets lists them")
		s.StringVar(&f.ops, "op", "dispatch,combine", "`OPS` operations, comma-separated: dispatch, combine, pair")
		s.StringVar(&f.dtypes, "dtype", "fp8", "`DTYPES` dtype of dispatched tokens: bf16, fp8")
		s.StringVar(&f.precision, "precision", "reduced", "`PRECISION` full or reduced; with reduced a combine may send partial sums as BF16")
		s.StringVar(&f.tokens, "tokens", "128", "`COUNTS` tokens per rank, a list or a range")
		s.StringVar(&f.ranks, "ranks", "8:2048:x2", "`COUNTS` numbers of ranks, a list or a range")
		s.IntVar(&f.perHost, "per-host", 8, "`N` number of ranks on one host")
		s.StringVar(&f.routings, "routing", "uniform,zipf:1.0", "`ROUTINGS` comma-separated list; epbench workload --list explains them")
		s.StringVar(&f.host, "link", "", "`LINK` link between the GPUs of a host; default: the first such link in the model file")
		s.StringVar(&f.network, "network", "", "`LINK` link between hosts; default: the first such link in the model file")
		s.Uint64Var(&f.seed, "seed", 1, "`SEED` seed of the random numbers for routing")
	})
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVarP(&f.out, "out", "o", "", "`FILE` picture to draw: .svg, .png or .pdf; default: none")
	})
	f.tables.bind(cmd)
	return cmd
}

func (f *planFlags) run(cmd *cobra.Command, path string) error {
	if _, err := f.tables.renderer(cmd); err != nil {
		return err
	}
	format := strings.TrimPrefix(filepath.Ext(f.out), ".")
	if f.out != "" && !slices.Contains(chart.Formats(), format) {
		return usagef("--out: %s must end in one of .%s", f.out, strings.Join(chart.Formats(), ", ."))
	}
	file, err := model.Load(path)
	if err != nil {
		return badInput(err)
	}
	m, err := model.New(file, f.host, f.network)
	if err != nil {
		return usagef("--link, --network: %w", err)
	}
	questions, err := f.questions()
	if err != nil {
		return err
	}
	points, err := predict.Plan(m, questions)
	if err != nil {
		return badInput(err)
	}
	if err := f.tables.print(cmd, predict.PlanTable(points)); err != nil || f.out == "" {
		return err
	}
	fig := f.figure(m, filepath.Base(path), points)
	return writeOut(cmd, f.out, record.Content(func(w io.Writer) error { return fig.Write(w, format, chart.DefaultScale) }))
}

// questions returns a question for every combination of the flags' values.
func (f *planFlags) questions() ([]predict.Question, error) {
	ranks, err := ep.ParseInts(f.ranks)
	if err != nil {
		return nil, usagef("--ranks: %w", err)
	}
	tokens, err := ep.ParseInts(f.tokens)
	if err != nil {
		return nil, usagef("--tokens: %w", err)
	}
	dists, err := (&problemFlags{routing: f.routings}).distributions()
	if err != nil {
		return nil, err
	}
	problems, err := f.problems()
	if err != nil {
		return nil, err
	}
	var out []predict.Question
	for _, a := range problems {
		for _, d := range dists {
			for _, n := range tokens {
				for _, r := range ranks {
					a.Routing, a.Shape.Tokens, a.Shape.Ranks, a.Shape.PerHost = d, n, r, min(f.perHost, r)
					if err := a.Shape.Validate(); err != nil {
						return nil, badInput(fmt.Errorf("--%w", err))
					}
					out = append(out, a)
				}
			}
		}
	}
	if len(out) == 0 {
		return nil, usagef("--model, --op, --dtype, --routing, --tokens and --ranks: each needs at least one value")
	}
	return out, nil
}

func (f *planFlags) problems() ([]predict.Question, error) {
	accepted, err := ep.ParsePrecision(f.precision)
	if err != nil {
		return nil, badInput(fmt.Errorf("--%w", err))
	}
	var out []predict.Question
	for _, name := range splitList(f.models) {
		preset, err := workloads.FindPreset(name)
		if err != nil {
			return nil, badInput(fmt.Errorf("--model: %w", err))
		}
		for _, op := range splitList(f.ops) {
			for _, dtype := range splitList(f.dtypes) {
				p := ep.Problem{Hidden: preset.WireHidden, Experts: preset.Experts, TopK: preset.TopK, Combine: ep.BF16}
				if p.Op, err = ep.ParseOp(op); err != nil {
					return nil, badInput(fmt.Errorf("--%w", err))
				}
				if p.Dispatch, err = ep.ParseDType(dtype); err != nil {
					return nil, badInput(fmt.Errorf("--%w", err))
				}
				if p.Op != ep.Dispatch {
					p.Precision = accepted
				}
				out = append(out, predict.Question{Model: preset.Name, Problem: p, Seed: f.seed, Shape: model.Shape{Experts: p.Experts, TopK: p.TopK}})
			}
		}
	}
	return out, nil
}

func (f *planFlags) figure(m *model.Model, file string, points []predict.Point) chart.Figure {
	var all []chart.Forecast
	several := strings.Contains(f.tokens, ",") || strings.Contains(f.tokens, ":")
	for _, p := range points {
		op := fmt.Sprintf("%s, %s", reports.OpTitle(p.Problem.Op, p.Problem.Precision), p.Problem.Dispatch)
		if several {
			op += fmt.Sprintf(", %d tokens", p.Shape.Tokens)
		}
		all = append(all, chart.Forecast{Panel: op, Line: p.Model + ", " + p.Routing.Spec(), Ranks: p.Shape.Ranks, Micros: p.Seconds * 1e6, Limit: string(p.Limit)})
	}
	title := fmt.Sprintf("%d ranks a host, %s and %s", f.perHost, m.Host.Name, m.Network.Name)
	if !several {
		title = fmt.Sprintf("%d tokens per rank, %s", points[0].Shape.Tokens, title)
	}
	return chart.Predicted(title, file, all)
}
