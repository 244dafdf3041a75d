package peers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// baseline reads a JSON file with times of several libraries. Each key that ends in _us names a library, and holds
// microseconds by token count, or by operation and token count.
var baseline = Format{
	Name:   "baseline",
	Doc:    "JSON with machine, workload and NAME_us objects of microseconds by token count",
	Checks: "none, because the file has only times",
	Detect: func(head []byte) bool {
		return firstByte(head) == '{' && bytes.Contains(head, []byte(`"workload"`)) && bytes.Contains(head, []byte(`_us"`))
	},
	Read: readBaseline,
}

func readBaseline(data []byte, g Given) ([]Figure, []string, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, nil, err
	}
	var load struct {
		Hidden, TopK, Experts, Ranks, Nodes int
	}
	if err := json.Unmarshal(doc["workload"], &load); err != nil {
		return nil, nil, fmt.Errorf("workload: %w", err)
	}
	known := newFacts(g)
	g, err := known.with(count("hidden", load.Hidden), count("topk", load.TopK), count("experts", load.Experts), count("ranks", load.Ranks), count("nodes", load.Nodes))
	if err == nil {
		err = g.require("hidden", "topk", "experts", "ranks")
	}
	if err == nil {
		err = g.setNodes(known, 0, 0)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("workload: %w", err)
	}
	var out []Figure
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		name, ok := strings.CutSuffix(key, "_us")
		if !ok || name == "latency" {
			continue
		}
		figures, err := baselinePeer(name, doc[key], g)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", key, err)
		}
		out = append(out, figures...)
	}
	return out, known.warnings, nil
}

// count returns a field's value. 0 means that the file does not state it.
func count(field string, v int) said {
	if v == 0 {
		return said{field: field}
	}
	return said{field, "workload." + field, strconv.Itoa(v)}
}

func baselinePeer(name string, raw json.RawMessage, g Given) ([]Figure, error) {
	var flat map[string]float64
	if json.Unmarshal(raw, &flat) == nil {
		// A time without an operation is the time of a dispatch and also that of a combine.
		dtype := baselineDType(name)
		d, err := baselineSeries(name, ep.Dispatch, dtype, flat, g)
		if err != nil {
			return nil, err
		}
		c, err := baselineSeries(name, ep.Combine, dtype, flat, g)
		return append(d, c...), err
	}
	var ops map[string]map[string]float64
	if err := json.Unmarshal(raw, &ops); err != nil {
		return nil, err
	}
	var out []Figure
	for _, key := range slices.Sorted(maps.Keys(ops)) {
		word, _, _ := strings.Cut(key, "_")
		op, err := ep.ParseOp(word)
		if err != nil {
			return nil, err
		}
		series, err := baselineSeries(name, op, baselineDType(key), ops[key], g)
		if err != nil {
			return nil, err
		}
		out = append(out, series...)
	}
	return out, nil
}

func baselineDType(key string) ep.DType {
	if slices.Contains(strings.Split(key, "_"), "fp8") {
		return ep.FP8
	}
	return ep.BF16
}

func baselineSeries(name string, op ep.Op, dtype ep.DType, times map[string]float64, g Given) ([]Figure, error) {
	kernel, sms := baselineName(name)
	var out []Figure
	for key, us := range times {
		tokens, err := strconv.Atoi(key)
		if err != nil {
			return nil, fmt.Errorf("%.20q is not a token count", key)
		}
		g.Tokens = tokens
		f := Figure{
			Kernel: kernel, Problem: g.problem(op, dtype), Seconds: us * 1e-6, Clock: "event",
			Note: "as published, microseconds under the key " + name + "_us",
		}
		if strings.Contains(name, "low_latency") {
			f.Clock = "span"
		}
		if sms != "" {
			f.Values = map[string]ep.Value{"sms": ep.Value(sms)}
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Figure) int { return cmp.Compare(a.Problem.Tokens, b.Problem.Tokens) })
	return out, nil
}

// baselineName splits deepep_v1_normal_24sm into deepep-v1-normal and 24.
func baselineName(name string) (kernel, sms string) {
	var words []string
	for _, w := range strings.Split(name, "_") {
		if n, ok := strings.CutSuffix(w, "sm"); ok && n != "" {
			if _, err := strconv.Atoi(n); err == nil {
				sms = n
				continue
			}
		}
		if w != "bf16" && w != "fp8" {
			words = append(words, w)
		}
	}
	return strings.Join(words, "-"), sms
}
