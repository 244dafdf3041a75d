package trace

import (
	"fmt"
	"slices"
	"strings"
)

// Axis names the meaning of one axis of an array.
type Axis string

const (
	Steps   Axis = "steps"  // forward passes, or recordings of several ranks; the counts are added up along this axis
	Layers  Axis = "layers" // see Options.Layer
	Ranks   Axis = "ranks"  // ranks, each with its own experts
	Experts Axis = "experts"
	Tokens  Axis = "tokens"
	TopK    Axis = "topk"
)

// ParseAxes reads a comma-separated list of axes.
func ParseAxes(text string) ([]Axis, error) {
	var out []Axis
	for _, word := range strings.Split(text, ",") {
		a := Axis(strings.TrimSpace(word))
		switch {
		case !slices.Contains([]Axis{Steps, Layers, Ranks, Experts, Tokens, TopK}, a):
			return nil, fmt.Errorf("unknown axis %.20q, use steps, layers, ranks, experts, tokens or topk", a)
		case slices.Contains(out, a):
			return nil, fmt.Errorf("axis %s is named twice", a)
		}
		out = append(out, a)
	}
	return out, nil
}

// knownAxes holds the axes of the recorders' arrays, by name and number of axes:
//   - SGLang (python/sglang/srt/eplb/expert_distribution.py): logical_count,
//     global_physical_count, topk_ids_of_layer.
//   - vLLM (vllm/distributed/eplb): expert_load_window, routed_experts.
//   - vllm-ascend (vllm_ascend/eplb/eplb_updator.py, compute_and_set_moe_load): moe_load.
var knownAxes = map[string]map[int][]Axis{
	"logical_count":         {3: {Steps, Layers, Experts}},
	"global_physical_count": {3: {Steps, Layers, Experts}},
	"expert_load":           {3: {Steps, Layers, Experts}},
	"expert_load_window":    {3: {Steps, Layers, Experts}},
	"moe_load":              {3: {Layers, Ranks, Experts}, 4: {Steps, Layers, Ranks, Experts}},
	"topk_ids_of_layer":     {3: {Layers, Tokens, TopK}},
	"routed_experts":        {3: {Tokens, Layers, TopK}},
}

// axesOf returns the axes that the option gives, or else those that belong to the array's name. Without both, it
// assumes the usual axes for arrays with one or two axes.
func (a *array) axesOf(kind Kind, o Options) ([]Axis, error) {
	n := len(a.shape)
	last, offers := Experts, "steps,layers,experts or layers,ranks,experts"
	switch kind {
	case IDs:
		last, offers = TopK, "layers,tokens,topk or tokens,layers,topk"
	case Logits:
		offers = "layers,tokens,experts or tokens,layers,experts"
	}
	switch axes := knownAxes[a.name][n]; {
	case len(o.Axes) > 0 && len(o.Axes) != n:
		return nil, fmt.Errorf("--axes names %d axes, the array has %d", len(o.Axes), n)
	case len(o.Axes) > 0:
		return o.Axes, checkAxes(o.Axes, kind, last)
	case axes != nil && axes[n-1] == last:
		return axes, nil
	case n == 1 && kind == Counts:
		return []Axis{Experts}, nil
	case n == 2 && kind == Counts:
		return []Axis{Layers, Experts}, nil
	case n == 2:
		return []Axis{Tokens, last}, nil
	case n == 3:
		return nil, fmt.Errorf("nothing says what the axes are; give --axes %s", offers)
	}
	return nil, fmt.Errorf("%d axes; give --axes with a name for each, such as %s", n, offers)
}

func checkAxes(axes []Axis, kind Kind, last Axis) error {
	allowed := map[Kind][]Axis{Counts: {Steps, Layers, Ranks, Experts}, IDs: {Layers, Tokens, TopK}, Logits: {Layers, Tokens, Experts}}[kind]
	for _, x := range axes {
		if !slices.Contains(allowed, x) {
			return fmt.Errorf("--axes: %s have no axis %s", kind, x)
		}
	}
	if axes[len(axes)-1] != last {
		return fmt.Errorf("--axes: the last axis of %s must be %s", kind, last)
	}
	return nil
}

// layout describes an array as outer x layers x inner rows of k elements. If `ranks` is above 1, a
// row holds the experts of one rank.
type layout struct {
	outer, layers, inner, k int
	ranks, stride           int // rank of row i: i/stride mod ranks
}

func layoutOf(shape []int, axes []Axis) layout {
	l := layout{outer: 1, layers: 1, inner: 1, ranks: 1, stride: 1, k: shape[len(shape)-1]}
	seen := !slices.Contains(axes, Layers) // without layers, all rows are inner
	for i, x := range axes[:len(axes)-1] {
		switch {
		case x == Layers:
			l.layers, seen = shape[i], true
			continue
		case seen:
			l.inner *= shape[i]
		default:
			l.outer *= shape[i]
		}
		if x == Ranks {
			l.ranks = shape[i]
			for j := i + 1; j < len(axes)-1; j++ {
				if axes[j] != Layers {
					l.stride *= shape[j]
				}
			}
		}
	}
	return l
}

func (l layout) rows() int { return l.outer * l.inner }

func (l layout) rankOf(i int) int { return i / l.stride % l.ranks }
