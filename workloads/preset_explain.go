package workloads

import (
	"fmt"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// RankCounts lists the rank counts up to most that the routed experts divide
// by.
func (p Preset) RankCounts(most int) []int {
	var out []int
	for n := 1; n <= min(most, p.Experts); n++ {
		if p.Experts%n == 0 {
			out = append(out, n)
		}
	}
	return out
}

// Problem is the preset's shape on a number of ranks; op, tokens and modes are
// the caller's.
func (p Preset) Problem(ranks int) ep.Problem {
	return ep.Problem{Op: ep.Dispatch, Mode: ep.Graph, Ranks: ranks, Nodes: 1, Hidden: p.WireHidden,
		Experts: p.Experts, TopK: p.TopK, MaxTokens: 1, Dispatch: ep.BF16, Combine: ep.BF16}
}

// Hazards says what about the shape breaks common assumptions, one sentence
// each, with the way out.
func (p Preset) Hazards() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if p.WireHidden != p.Hidden {
		add("experts work in a latent: %d elements of a token travel, not %d", p.WireHidden, p.Hidden)
	}
	for _, f := range ep.DTypes() {
		q := p.Problem(1)
		q.Dispatch = f
		if err := q.Validate(); err != nil {
			add("no %s: %v", f, err)
		}
	}
	if p.TopK > 8 {
		add("top-%d is more than the 8 that NCCL EP's low-latency and TensorRT-LLM's kernels take", p.TopK)
	}
	if p.ZeroExperts > 0 {
		share := float64(p.ZeroExperts) / float64(p.Experts+p.ZeroExperts)
		add("%d zero experts take part in the routing, but nothing travels to them: with even routing %.0f %% of the selections, so add +masked:%.3f",
			p.ZeroExperts, 100*share, share)
	}
	if p.Experts%64 != 0 {
		add("%d experts do not divide by 64 ranks; by %s they do", p.Experts, join(p.RankCounts(256)))
	}
	if p.Experts == 8 {
		add("8 ranks hold one expert each: the worst case of low-latency kernels, which signal by expert")
	}
	if p.Source == "memory" {
		add("some figures are second hand: verify them before quoting")
	}
	return out
}

func join(ns []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ns), " ", ", "), "[]")
}
