package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/sweep"
	"github.com/epbench/epbench/workloads"
)

type problemFlags struct {
	model     string
	hidden    int
	topK      int
	inner     int
	experts   int
	ranks     int
	nodes     int
	tokens    string
	maxTokens int
	ops       string
	dtypes    string
	mode      string
	routing   string
	seed      uint64
	shared    bool
	skipA2A   bool
	layout    string
}

// bind registers the flags, except those that `without` names.
func (f *problemFlags) bind(cmd *cobra.Command, without ...string) {
	all := pflag.NewFlagSet(forProblem, pflag.ContinueOnError)
	all.StringVar(&f.model, "model", "demo", "`PRESET` model with this shape; epbench presets lists them")
	all.StringVar(&f.ops, "op", "dispatch,combine,pair", "`OPS` operations, comma-separated: dispatch, combine, pair, activation, layer")
	all.StringVar(&f.tokens, "tokens", "1,16,64", "`COUNTS` tokens per rank: a list 1,8,128 or a range 1:4096:x2")
	all.StringVar(&f.routing, "routing", "uniform,zipf:1.0", "`ROUTINGS` comma-separated list; epbench workload --list explains them")
	all.StringVar(&f.dtypes, "dtype", "bf16", "`DTYPES` dtype of dispatched tokens and of activated rows: bf16, fp8, mxfp4, nvfp4")
	all.IntVar(&f.ranks, "ranks", 0, "`N` number of ranks, one GPU each; default: all GPUs, 4 on cpu")
	all.IntVar(&f.nodes, "nodes", 1, "`N` number of hosts, each with an equal share of the ranks")
	all.IntVar(&f.hidden, "hidden", 0, "`N` hidden size: elements of a token, or of an activated row; default: the preset's")
	all.IntVar(&f.inner, "intermediate", 0, "`N` for op layer: width inside one expert; default: the preset's")
	all.IntVar(&f.experts, "experts", 0, "`N` routed experts of all ranks together; default: the preset's")
	all.IntVar(&f.topK, "topk", 0, "`N` experts selected per token; default: the preset's")
	all.IntVar(&f.maxTokens, "max-tokens", 0, "`N` tokens per rank that buffers have room for; default: --tokens")
	all.StringVar(&f.mode, "mode", "", "`MODE` how rounds are launched: graph, eager or cold; default: the backend's")
	all.BoolVar(&f.shared, "shared-expert", false, "every token also goes to a shared expert on its own rank")
	all.BoolVar(&f.skipA2A, "skip-a2a", false, "all ranks have the same tokens, and each rank keeps only the rows of its own experts")
	all.StringVar(&f.layout, "layout", "", "`LAYOUT` how received rows lie in memory: expert, expert:128, masked, rank or rank:packed; default: expert, or the backend's")
	all.Uint64Var(&f.seed, "seed", 1, "`SEED` seed of the random numbers for routing and payload")
	flags(cmd, forProblem, func(s *pflag.FlagSet) {
		s.SortFlags, all.SortFlags = false, false
		all.VisitAll(func(g *pflag.Flag) {
			if !slices.Contains(without, g.Name) {
				s.AddFlag(g)
			}
		})
	})
}

// problems returns a valid problem for every combination of op, dtype and token count.
func (f *problemFlags) problems(m ep.Machine) ([]ep.Problem, error) {
	if err := noGaps("--op", f.ops, "--dtype", f.dtypes); err != nil {
		return nil, err
	}
	base, err := f.base(m)
	if err != nil {
		return nil, badInput(err)
	}
	tokens, err := f.counts()
	if err != nil {
		return nil, err
	}
	var out []ep.Problem
	for _, op := range splitList(f.ops) {
		for _, dtype := range splitList(f.dtypes) {
			for _, n := range tokens {
				p := base
				if p.Op, err = ep.ParseOp(op); err != nil {
					return nil, badInput(fmt.Errorf("--%w", err))
				}
				if p.Hidden, err = f.hiddenOf(p.Op); err != nil {
					return nil, badInput(err)
				}
				if p.Dispatch, err = ep.ParseDType(dtype); err != nil {
					return nil, badInput(fmt.Errorf("--%w", err))
				}
				if p.Intermediate, err = f.intermediateOf(p.Op); err != nil {
					return nil, badInput(err)
				}
				p.Tokens, p.MaxTokens = n, cmp.Or(f.maxTokens, max(n, 1))
				if err := p.Validate(); err != nil {
					return nil, badInput(fmt.Errorf("--%w", err))
				}
				out = append(out, p)
			}
		}
	}
	if len(out) == 0 {
		return nil, usagef("--op, --dtype and --tokens: each needs at least one value")
	}
	return out, nil
}

func (f *problemFlags) hiddenOf(op ep.Op) (int, error) {
	preset, err := workloads.FindPreset(f.model)
	if err != nil {
		return 0, fmt.Errorf("--model: %w", err)
	}
	n := cmp.Or(f.hidden, preset.HiddenOf(op))
	if n == 0 {
		return 0, fmt.Errorf("--hidden: preset %s does not give the intermediate size of its experts; for op %s, give this size as --hidden", preset.Name, op)
	}
	return n, nil
}

// intermediateOf returns 0 for ops without an intermediate size.
func (f *problemFlags) intermediateOf(op ep.Op) (int, error) {
	if op != ep.Layer {
		return 0, nil
	}
	preset, err := workloads.FindPreset(f.model)
	if err != nil {
		return 0, fmt.Errorf("--model: %w", err)
	}
	n := cmp.Or(f.inner, preset.Intermediate)
	if n == 0 {
		return 0, fmt.Errorf("--intermediate: preset %s does not give the intermediate size of its experts, and op %s needs this size; give it with --intermediate", preset.Name, op)
	}
	return n, nil
}

// options returns the options of a sweep. Without --layout, problems have layout expert. If no kernel in `known` serves
// an op with layout expert, the problems of this op get the first layout of the first kernel for the op.
func (f *problemFlags) options(m ep.Machine, known []kernels.Kernel) (*sweep.Options, error) {
	problems, err := f.problems(m)
	if err != nil {
		return nil, err
	}
	for i, p := range problems {
		all := kernels.Of(known, p.Op)
		if f.layout != "" || len(kernels.For(all, p)) > 0 || len(all) == 0 || len(all[0].Layouts) == 0 {
			continue
		}
		problems[i].Layout = all[0].Layouts[0]
		if err := problems[i].Validate(); err != nil {
			return nil, badInput(fmt.Errorf("--%w", err))
		}
	}
	dists, err := f.distributions()
	return &sweep.Options{Problems: problems, Distributions: dists, Seed: f.seed, Tool: version}, err
}

func (f *problemFlags) counts() ([]int, error) {
	tokens, err := ep.ParseInts(f.tokens)
	if err != nil {
		return nil, usagef("--tokens: %w", err)
	}
	for _, n := range tokens {
		if n < 0 || n > ep.MaxTokens {
			return nil, usagef("--tokens: %d is outside 0 to %d", n, ep.MaxTokens)
		}
		if f.maxTokens > 0 && n > f.maxTokens {
			return nil, usagef("--tokens: %d is above --max-tokens %d", n, f.maxTokens)
		}
	}
	return tokens, nil
}

func (f *problemFlags) base(m ep.Machine) (ep.Problem, error) {
	preset, err := workloads.FindPreset(f.model)
	if err != nil {
		return ep.Problem{}, fmt.Errorf("--model: %w", err)
	}
	mode, err := modeOf(f.mode, m)
	if err != nil {
		return ep.Problem{}, err
	}
	p := ep.Problem{
		Mode: mode, Ranks: f.ranks, Nodes: f.nodes,
		Hidden: preset.WireHidden, Experts: preset.Experts, TopK: preset.TopK,
		Combine: ep.BF16, SharedExpert: f.shared, SkipA2A: f.skipA2A,
	}
	if f.layout != "" {
		if p.Layout, err = ep.ParseLayout(f.layout); err != nil {
			return p, fmt.Errorf("--%w", err)
		}
	}
	if p.Ranks == 0 {
		p.Ranks = defaultRanks(m)
	}
	for _, o := range []struct{ set, field *int }{{&f.hidden, &p.Hidden}, {&f.topK, &p.TopK}, {&f.experts, &p.Experts}} {
		if *o.set != 0 {
			*o.field = *o.set
		}
	}
	return p, nil
}

// modeOf returns the mode of --mode, by default eager on the CPU and graph on GPUs.
func modeOf(flag string, m ep.Machine) (ep.Mode, error) {
	switch {
	case flag == "" && m.Backend == "cpu":
		return ep.Eager, nil
	case flag == "":
		return ep.Graph, nil
	}
	mode, err := ep.ParseMode(flag)
	if err != nil {
		return "", fmt.Errorf("--%w", err)
	}
	return mode, nil
}

func defaultRanks(m ep.Machine) int {
	if m.GPUs > 0 {
		return m.GPUs
	}
	return 4
}

func (f *problemFlags) distributions() ([]workloads.Distribution, error) {
	if err := noGaps("--routing", f.routing); err != nil {
		return nil, err
	}
	var out []workloads.Distribution
	for _, spec := range splitList(f.routing) {
		d, err := workloads.Parse(spec)
		if err != nil {
			return nil, usagef("--routing: %w", err)
		}
		out = append(out, d)
	}
	if len(out) == 0 {
		return nil, usagef("--routing: empty; try uniform")
	}
	return out, nil
}

// noGaps refuses empty items, because the user may have forgotten a value. `flags` holds pairs of name and value.
func noGaps(flags ...string) error {
	for i := 0; i < len(flags); i += 2 {
		for item := range strings.SplitSeq(flags[i+1], ",") {
			if strings.TrimSpace(item) == "" && flags[i+1] != "" {
				return usagef("%s: %q has an empty item; leave out the comma", flags[i], flags[i+1])
			}
		}
	}
	return nil
}

// splitList splits at commas and drops empty items.
func splitList(s string) []string {
	var out []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
