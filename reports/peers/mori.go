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

// mori reads the tuning_configs tables of ROCm/mori: tuned configs of one kernel on one GPU model, with their times.
var mori = Format{
	Name:   "mori",
	Doc:    "tuning_configs JSON of Mori",
	Checks: "bandwidth x latency = bytes received under uniform routing; on several hosts, the bandwidth is ll_bandwidth_gbps",
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
	Selection float64 `json:"ll_bandwidth_gbps"` // counts a token once for each selected expert
	ZeroCopy  bool    `json:"zero_copy"`
	Latency   float64 `json:"latency_us"`
	Quant     string  `json:"quant_type"` // type of the rows that a combine sends

	AvgSelection float64 `json:"avg_ll_bandwidth_gbps"`
	AvgLatency   float64 `json:"avg_latency_us"`
}

func readMori(data []byte, g Given) ([]Figure, []string, error) {
	var doc struct {
		GPU    string     `json:"gpu_model"`
		Kernel string     `json:"kernel_type"`
		Ranks  int        `json:"ep_size"`
		Phase  string     `json:"phase"`
		Quant  string     `json:"quant_type"` // for rules without a quant_type
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
	// Mori tunes on hosts of eight GPUs. The file does not give the number of hosts.
	known := newFacts(g)
	g, err = known.with(said{"ranks", "ep_size", strconv.Itoa(doc.Ranks)}, said{"nodes", "ep_size / 8", strconv.Itoa(max(1, doc.Ranks/8))})
	if err != nil {
		return nil, nil, err
	}
	ops := slices.Repeat([]ep.Op{op}, len(doc.Rules))
	ops = append(append(ops, slices.Repeat([]ep.Op{ep.Dispatch}, len(doc.Dispatch))...), slices.Repeat([]ep.Op{ep.Combine}, len(doc.Combine))...)
	var out []Figure
	warnings := known.warnings
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

const moriSlack = 0.05

func (r moriRule) figure(op ep.Op, g Given) (f Figure, skipped string, err error) {
	dtype, ok := moriTypes[r.DType]
	if !ok {
		return f, fmt.Sprintf("rules of dtype %.20q left out: epbench has no such dtype", r.DType), nil
	}
	if op == ep.Combine && (dtype != ep.BF16 || r.Quant != "" && r.Quant != "none") {
		return f, fmt.Sprintf("combines of dtype %.20q with quant_type %.20q left out: epbench's combines send bf16", r.DType, cmp.Or(r.Quant, "none")), nil
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
		Note:   fmt.Sprintf("%.2f GB/s by the mori definition; the best config of Mori's own sweep, replayed as a graph; sms is the number of blocks", r.Bandwidth),
	}
	if r.ZeroCopy {
		f.Values["zero_copy"] = "yes"
	}
	// On several hosts, bandwidth_gbps counts only bytes that cross hosts.
	name, gbps := "mori", r.Bandwidth
	if p.Nodes > 1 {
		name, gbps = "mori-ll", selection
	}
	d, _ := FindDefinition(name)
	switch {
	case latency == 0 && gbps <= 0:
		return f, "rules left out: they have neither a latency nor a bandwidth that counts all bytes", nil
	case latency == 0:
		f.Seconds = d.Seconds(p, gbps)
		f.Note = fmt.Sprintf("%.2f GB/s converted to a time by the %s definition with uniform routing", gbps, name)
	case gbps > 0 && !agrees(d.Seconds(p, gbps), f.Seconds, moriSlack):
		return f, fmt.Sprintf("a rule for %d tokens of hidden %d left out: latency_us is %g, but %g GB/s give %.4g us by the %s definition", p.Tokens, p.Hidden, latency, gbps, d.Seconds(p, gbps)*1e6, name), nil
	}
	return f, "", nil
}
