package peers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// mori reads the tuning_configs tables of ROCm/mori.
var mori = Format{
	Name: "mori",
	Doc:  "tuning_configs JSON of Mori",
	Detect: func(head []byte) bool {
		return firstByte(head) == '{' && bytes.Contains(head, []byte(`"ep_size"`)) && (bytes.Contains(head, []byte(`"rules"`)) || bytes.Contains(head, []byte(`"dispatch_rules"`)))
	},
	Read: readMori,
}

type moriRule struct {
	DType     string  `json:"dtype"`
	Tokens    int     `json:"num_tokens"`
	Hidden    int     `json:"hidden_dim"`
	TopK      int     `json:"topk"`
	Experts   int     `json:"num_experts"`
	Blocks    int     `json:"block_num"`
	Warps     int     `json:"warp_per_block"`
	Bandwidth float64 `json:"bandwidth_gbps"`
	Selection float64 `json:"ll_bandwidth_gbps"` // of several hosts: bytes of every selection
	ZeroCopy  bool    `json:"zero_copy"`
	Latency   float64 `json:"latency_us"`
	Quant     string  `json:"quant_type"` // of a combine: what it casts its rows to

	// As files of several hosts spell two of them today.
	AvgSelection float64 `json:"avg_ll_bandwidth_gbps"`
	AvgLatency   float64 `json:"avg_latency_us"`
}

func readMori(data []byte, g Given) ([]Figure, []string, error) {
	var doc struct {
		GPU    string     `json:"gpu_model"`
		Kernel string     `json:"kernel_type"`
		Ranks  int        `json:"ep_size"`
		Phase  string     `json:"phase"`
		Quant  string     `json:"quant_type"` // of rules that have none
		Rules  []moriRule `json:"rules"`

		// Older files hold both phases.
		Dispatch []moriRule `json:"dispatch_rules"`
		Combine  []moriRule `json:"combine_rules"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, nil, err
	}
	if doc.Phase == "" {
		doc.Phase = string(ep.Dispatch)
	}
	op, err := ep.ParseOp(doc.Phase)
	if err != nil {
		return nil, nil, fmt.Errorf("phase: %w", err)
	}
	g.Ranks, g.Nodes = doc.Ranks, max(1, doc.Ranks/8) // hosts of eight GPUs
	ops := slices.Repeat([]ep.Op{op}, len(doc.Rules))
	ops = append(append(ops, slices.Repeat([]ep.Op{ep.Dispatch}, len(doc.Dispatch))...), slices.Repeat([]ep.Op{ep.Combine}, len(doc.Combine))...)
	var out []Figure
	var warnings []string
	for i, rule := range slices.Concat(doc.Rules, doc.Dispatch, doc.Combine) {
		rule.Quant = cmp.Or(rule.Quant, doc.Quant)
		f, skipped, err := rule.figure(ops[i], g)
		if err != nil {
			return nil, nil, fmt.Errorf("rule %d: %w", i, err)
		}
		if skipped != "" {
			warnings = append(warnings, skipped)
			continue
		}
		f.Kernel = strings.ToLower("mori-" + doc.Kernel + "-" + doc.GPU)
		out = append(out, f)
	}
	if len(out) == 0 && len(warnings) > 0 {
		return nil, nil, errors.New(warnings[0])
	}
	return out, warnings, nil
}

var moriTypes = map[string]ep.DType{"bf16": ep.BF16, "bfloat16": ep.BF16, "fp8": ep.FP8, "fp8_ocp": ep.FP8, "fp8_fnuz": ep.FP8, "fp8_e4m3": ep.FP8,
	"fp8_e4m3_fnuz": ep.FP8, "fp8_e4m3_fn": ep.FP8}

// figure reads one rule; skipped says why there is no figure of it.
func (r moriRule) figure(op ep.Op, g Given) (f Figure, skipped string, err error) {
	dtype, ok := moriTypes[r.DType]
	if !ok {
		return f, fmt.Sprintf("rules of dtype %.20q left out: no dtype of ours has its bytes", r.DType), nil
	}
	// A combine that sends anything but BF16 has no problem of ours. Beside a cast one of BF16
	// stands another rule with the same config.
	if op == ep.Combine && (dtype != ep.BF16 || r.Quant != "" && r.Quant != "none") {
		return f, fmt.Sprintf("combines of dtype %.20q with quant_type %.20q left out: ours send bf16", r.DType, cmp.Or(r.Quant, "none")), nil
	}
	latency, selection := cmp.Or(r.Latency, r.AvgLatency), cmp.Or(r.Selection, r.AvgSelection)
	g.TopK, g.Experts = cmp.Or(max(r.TopK, 0), g.TopK), cmp.Or(max(r.Experts, 0), g.Experts)
	g.Tokens, g.Hidden = r.Tokens, r.Hidden
	if err := g.require("experts", "topk", "ranks", "tokens", "hidden"); err != nil {
		return f, "", err
	}
	p := g.problem(op, dtype)
	p.Mode = ep.Graph
	f = Figure{
		Problem: p, Seconds: latency * 1e-6, Clock: "event",
		Values: map[string]ep.Value{"sms": ep.Value(strconv.Itoa(r.Blocks)), "warps": ep.Value(strconv.Itoa(r.Warps))},
		Note:   fmt.Sprintf("%.2f GB/s by the mori definition; best of its own sweep, graph replay; sms are blocks", r.Bandwidth),
	}
	if r.ZeroCopy {
		f.Values["zero_copy"] = "yes"
	}
	if latency == 0 {
		// Of several hosts, bandwidth_gbps counts what crosses them only.
		name, gbps := "mori", r.Bandwidth
		if p.Nodes > 1 {
			name, gbps = "mori-ll", selection
		}
		if gbps <= 0 {
			return f, "rules with neither a latency nor a bandwidth of all bytes left out", nil
		}
		d, _ := FindDefinition(name)
		f.Seconds = d.Seconds(p, gbps)
		f.Note = fmt.Sprintf("%.2f GB/s turned into a time by the %s definition with uniform routing", gbps, name)
	}
	return f, "", nil
}
