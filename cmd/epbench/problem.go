package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// problemFlags are the flags that say what is to be moved. Every command that
// needs problems binds the same ones.
type problemFlags struct {
	model     string
	hidden    int
	topK      int
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
}

// bind registers the flags with their defaults: the preset demo.
func (f *problemFlags) bind(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.model, "model", "demo", "model preset; see epbench presets")
	s.IntVar(&f.hidden, "hidden", 0, "hidden size in elements, instead of the preset's")
	s.IntVar(&f.topK, "topk", 0, "experts per token, instead of the preset's")
	s.IntVar(&f.experts, "experts", 0, "routed experts over all ranks, instead of the preset's")
	s.IntVar(&f.ranks, "ranks", 0, "ranks (GPUs); default: all GPUs, 4 on cpu")
	s.IntVar(&f.nodes, "nodes", 1, "hosts the ranks are spread over")
	s.StringVar(&f.tokens, "tokens", "1,16,64", "tokens per rank: list or range, 1,8,128 or 1:4096:x2")
	s.IntVar(&f.maxTokens, "max-tokens", 0, "capacity per rank; default: the token count")
	s.StringVar(&f.ops, "op", "dispatch,combine,pair", "operations")
	s.StringVar(&f.dtypes, "dtype", "bf16", "what dispatched tokens travel as: bf16, fp8, mxfp4, nvfp4")
	s.StringVar(&f.mode, "mode", "", "how rounds are issued: graph, eager or cold; default: the backend's own")
	s.StringVar(&f.routing, "routing", "uniform,zipf:1.0", "routings: name[:arg[:arg]][+modifier], comma-separated")
	s.Uint64Var(&f.seed, "seed", 1, "seed of routing and payload")
	s.BoolVar(&f.shared, "shared-expert", false, "fuse the shared expert into both operations")
	s.BoolVar(&f.skipA2A, "skip-a2a", false, "tokens are replicated; every rank keeps its local share")
}

// problems expands the flags for a machine, in the order op, dtype, tokens.
// Every problem is valid.
func (f *problemFlags) problems(m ep.Machine) ([]ep.Problem, error) {
	base, err := f.base(m)
	if err != nil {
		return nil, badInput(err)
	}
	tokens, err := ep.ParseInts(f.tokens)
	if err != nil {
		return nil, usagef("--tokens: %w", err)
	}
	var out []ep.Problem
	for _, op := range splitList(f.ops) {
		for _, dtype := range splitList(f.dtypes) {
			for _, n := range tokens {
				p := base
				if p.Op, err = ep.ParseOp(op); err != nil {
					return nil, badInput(fmt.Errorf("--%w", err))
				}
				if p.Dispatch, err = ep.ParseDType(dtype); err != nil {
					return nil, badInput(fmt.Errorf("--%w", err))
				}
				p.Tokens = n
				p.MaxTokens = f.maxTokens
				if p.MaxTokens == 0 {
					p.MaxTokens = max(n, 1)
				}
				if err := p.Validate(); err != nil {
					return nil, badInput(fmt.Errorf("--%w", err))
				}
				out = append(out, p)
			}
		}
	}
	if len(out) == 0 {
		return nil, usagef("--op, --dtype and --tokens: nothing to do")
	}
	return out, nil
}

// base is the problem without op, dtype and tokens.
func (f *problemFlags) base(m ep.Machine) (ep.Problem, error) {
	preset, err := workloads.FindPreset(f.model)
	if err != nil {
		return ep.Problem{}, fmt.Errorf("--model: %w", err)
	}
	p := ep.Problem{
		Mode: defaultMode(m), Ranks: f.ranks, Nodes: f.nodes,
		Hidden: preset.WireHidden, Experts: preset.Experts, TopK: preset.TopK,
		Combine: ep.BF16, SharedExpert: f.shared, SkipA2A: f.skipA2A,
	}
	if f.mode != "" {
		if p.Mode, err = ep.ParseMode(f.mode); err != nil {
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

// defaultMode is how a machine's backend issues rounds unless asked.
func defaultMode(m ep.Machine) ep.Mode {
	if m.Backend == "cpu" {
		return ep.Eager
	}
	return ep.Graph
}

func defaultRanks(m ep.Machine) int {
	if m.GPUs > 0 {
		return m.GPUs
	}
	return 4
}

// distributions parses --routing.
func (f *problemFlags) distributions() ([]workloads.Distribution, error) {
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

// splitList splits a comma-separated flag, dropping empty items.
func splitList(s string) []string {
	var out []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
