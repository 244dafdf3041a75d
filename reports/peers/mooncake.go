package peers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/epbench/epbench/tune/ep"
)

// mooncake reads the JSON that assemble_json_output in mooncake-ep/benchmarks/ep_benchmark/metrics.py writes
// (kvcache-ai/Mooncake, commit 3b5a594). Each time is the slowest rank's, measured between CUDA events.
var mooncake = Format{
	Name:   "mooncake",
	Doc:    "JSON of Mooncake's mooncake-ep/benchmarks/ep_benchmark",
	Checks: "tokens_per_second = num_tokens x world_size / mean; p50 <= p99; every rank has statistics",
	Detect: func(head []byte) bool { return looksLikeJSON(head) && bytes.Contains(head, []byte(`"mooncake_ep"`)) },
	Read:   readMooncake,
}

type mooncakeTimes struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Mean float64 `json:"mean"`
}

func readMooncake(data []byte, g Given) ([]Figure, []string, error) {
	var doc struct {
		Backend string  `json:"backend"`
		Ranks   int     `json:"world_size"`
		Experts int     `json:"num_experts"`
		Hidden  int     `json:"hidden_size"`
		TopK    int     `json:"top_k"`
		Tokens  int     `json:"num_tokens"`
		DType   string  `json:"dtype"`
		Routing string  `json:"routing_mode"`
		Zipf    float64 `json:"zipf_alpha"`
		Hot     int     `json:"hot_experts"`
		HotPart float64 `json:"hot_fraction"`
		Metrics struct {
			Dispatch mooncakeTimes                         `json:"dispatch_latency_ms"`
			Combine  mooncakeTimes                         `json:"combine_latency_ms"`
			Whole    mooncakeTimes                         `json:"end_to_end_latency_ms"`
			Speed    float64                               `json:"tokens_per_second"`
			PerRank  map[string]map[string]json.RawMessage `json:"per_rank_stats"`
		} `json:"metrics"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, nil, err
	}
	f := newFacts(g)
	g, err := f.with(counted("ranks", "world_size", doc.Ranks), counted("experts", "num_experts", doc.Experts), counted("hidden", "hidden_size", doc.Hidden),
		counted("topk", "top_k", doc.TopK), counted("tokens", "num_tokens", doc.Tokens))
	if err == nil {
		err = g.require("ranks", "experts", "hidden", "topk", "tokens")
	}
	if err == nil {
		err = g.setNodes(f, 0, 0)
	}
	if err != nil {
		return nil, nil, err
	}
	m := doc.Metrics
	if want := float64(doc.Tokens*doc.Ranks) / (m.Whole.Mean / 1e3); m.Whole.Mean > 0 && m.Speed > 0 && math.Abs(want/m.Speed-1) > 1e-6 {
		return nil, nil, fmt.Errorf("%d tokens on %d ranks in %g ms are %.6g tokens a second, but tokens_per_second is %.6g", doc.Tokens, doc.Ranks, m.Whole.Mean, want, m.Speed)
	}
	if n := len(m.PerRank["dispatch_latency_ms"]); n > 0 && n != doc.Ranks {
		return nil, nil, fmt.Errorf("per_rank_stats has %d ranks, but world_size is %d", n, doc.Ranks)
	}
	dtype, known := map[string]ep.DType{"bf16": ep.BF16, "bfloat16": ep.BF16, "fp8": ep.FP8}[doc.DType]
	if !known {
		return nil, nil, fmt.Errorf("dtype: %.20q is not a dtype of epbench", doc.DType)
	}
	routing := map[string]string{"uniform": "uniform", "zipf": fmt.Sprintf("zipf:%g", doc.Zipf), "k_hot": fmt.Sprintf("khot:%d:%g", doc.Hot, doc.HotPart)}[doc.Routing]
	if routing == "" && g.Routing == "" {
		return nil, nil, fmt.Errorf("routing_mode: %.20q is unknown; give --routing", doc.Routing)
	}
	var out []Figure
	for _, half := range []struct {
		op ep.Op
		t  mooncakeTimes
	}{{ep.Dispatch, m.Dispatch}, {ep.Combine, m.Combine}} {
		if !(half.t.P50 > 0) || half.t.P50 > half.t.P99 {
			return nil, nil, fmt.Errorf("%s_latency_ms: p50 is %g ms and p99 %g ms; p50 must be positive and no larger than p99", half.op, half.t.P50, half.t.P99)
		}
		out = append(out, Figure{Kernel: "mooncake-" + doc.Backend, Problem: g.problem(half.op, dtype), Routing: routing, Seconds: half.t.P50 * 1e-3, Clock: "event",
			Note: "median of the slowest rank's times; the host launches each call (eager)"})
	}
	f.warn("end_to_end_latency_ms left out: it includes the time of the benchmark's stand-in for the experts")
	return out, f.warnings, nil
}

// counted returns a field's value. `column` is the name that the file gives the field.
func counted(field, column string, v int) said {
	s := count(field, v)
	s.column = column
	return s
}
