package workloads

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// RankCounts lists the rank counts up to 256 that divide the routed experts, such as "1, 2, 4".
func (p Preset) RankCounts() string {
	var out []string
	for n := 1; n <= min(256, p.Experts); n++ {
		if p.Experts%n == 0 {
			out = append(out, strconv.Itoa(n))
		}
	}
	return strings.Join(out, ", ")
}

// Problem returns a BF16 dispatch of one token with the preset's shape.
func (p Preset) Problem(ranks int) ep.Problem {
	return ep.Problem{Op: ep.Dispatch, Mode: ep.Graph, Ranks: ranks, Nodes: 1, Hidden: p.WireHidden,
		Experts: p.Experts, TopK: p.TopK, MaxTokens: 1, Dispatch: ep.BF16, Combine: ep.BF16}
}

// Hazards lists common assumptions that do not hold for the shape.
func (p Preset) Hazards() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if p.WireHidden != p.Hidden {
		add("experts work in a latent space: ranks send %d elements of a token, not %d", p.WireHidden, p.Hidden)
	}
	for _, d := range ep.DTypes() {
		q := p.Problem(1)
		q.Dispatch = d
		if err := q.Validate(); err != nil {
			add("no %s: %v", d, err)
		}
	}
	if p.TopK > 8 {
		add("top-%d is more than the 8 that TensorRT-LLM's kernels and NCCL EP's low-latency kernels take", p.TopK)
	}
	if p.ZeroExperts > 0 {
		share := float64(p.ZeroExperts) / float64(p.Experts+p.ZeroExperts)
		add("%d zero experts take part in the routing, but no token is sent to them; with even routing they get %.0f %% of the selections, so add +masked:%.3f to --routing",
			p.ZeroExperts, 100*share, share)
	}
	if p.Experts%64 != 0 {
		add("%d experts do not divide by 64 ranks; use %s", p.Experts, p.RankCounts())
	}
	if p.Experts == 8 {
		add("8 ranks hold one expert each: the worst case of low-latency kernels, which signal by expert")
	}
	if p.Source == "memory" {
		add("some figures are from memory: verify them before quoting")
	}
	return out
}
