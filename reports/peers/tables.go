package peers

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// aiconfigurator reads the wideep_deepep_ll and wideep_deepep_normal tables
// of ai-dynamo/aiconfigurator: the CSV that its collector writes, or the same
// rows as a JSON array of objects.
var aiconfigurator = Format{
	Name: "aiconfigurator",
	Doc:  "deepep_ll or deepep_normal table of aiconfigurator, CSV or JSON rows",
	Detect: func(head []byte) bool {
		return bytes.Contains(head, []byte("combine_avg_t_us")) || bytes.Contains(head, []byte("combine_transmit_us")) ||
			bytes.HasPrefix(head, []byte("PAR1"))
	},
	Read: readAIConfigurator,
}

func readAIConfigurator(data []byte, g Given) ([]Figure, []string, error) {
	if bytes.HasPrefix(data, []byte("PAR1")) {
		return nil, nil, errors.New("Parquet is not read; export the table as CSV first, for example with duckdb -csv")
	}
	rows, err := tableRows(data)
	if err != nil {
		return nil, nil, err
	}
	var out []Figure
	for i, row := range rows {
		figures, err := aiRow(row, g)
		if err != nil {
			return nil, nil, fmt.Errorf("row %d: %w", i+1, err)
		}
		out = append(out, figures...)
	}
	return out, nil, nil
}

// aiRow makes the figures of one row, for dispatch and combine.
func aiRow(row map[string]string, g Given) ([]Figure, error) {
	nodes := 1
	if err := setCounts(count{"node_num", row["node_num"], &nodes}, count{"hidden_size", row["hidden_size"], &g.Hidden}, count{"num_token", row["num_token"], &g.Tokens},
		count{"num_topk", row["num_topk"], &g.TopK}, count{"num_experts", row["num_experts"], &g.Experts}); err != nil {
		return nil, err
	}
	// The collector runs on hosts of eight GPUs and stores only their number.
	g.Nodes, g.Ranks = nodes, 8*nodes
	figure := aiNormal
	if _, ok := row["combine_avg_t_us"]; ok {
		figure = aiLowLatency
	}
	var out []Figure
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
		f, err := figure(row, string(op))
		if err != nil {
			return nil, err
		}
		f.Problem = g.problem(op, ep.FP8)
		out = append(out, f)
	}
	return out, nil
}

func aiLowLatency(row map[string]string, op string) (Figure, error) {
	us, err := number(row[op+"_avg_t_us"])
	return Figure{Kernel: "deepep-ll", Seconds: us * 1e-6, Clock: "span",
		Note: "kernel time, mean over calls and ranks; dispatch casts BF16 to FP8 inside"}, err
}

func aiNormal(row map[string]string, op string) (f Figure, err error) {
	us, err := number(row[op+"_transmit_us"])
	if err != nil {
		return f, err
	}
	notify, err := strconv.ParseFloat(row[op+"_notify_us"], 64)
	if err != nil || notify < 0 {
		return f, fmt.Errorf("%s_notify_us: %.20q is no time", op, row[op+"_notify_us"])
	}
	sms := ep.Value(row[op+"_sms"])
	if _, ok := sms.Int(); !ok {
		return f, fmt.Errorf("%s_sms: %.20q is no count", op, sms)
	}
	return Figure{Kernel: "deepep-normal", Values: map[string]ep.Value{"sms": sms}, Seconds: (us + notify) * 1e-6, Clock: "event",
		Note: "transmit plus notify, mean over calls, best chunk of its own tuning; cached handle, FP8 given already cast"}, nil
}

// tableRows reads a CSV with a header, or a JSON array of flat objects.
func tableRows(data []byte) ([]map[string]string, error) {
	if firstByte(data) == '[' {
		return jsonRows(data)
	}
	in := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	header, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	records, err := in.ReadAll()
	rows := make([]map[string]string, len(records))
	for i, record := range records {
		rows[i] = make(map[string]string, len(header))
		for k, name := range header {
			rows[i][strings.TrimSpace(name)] = strings.TrimSpace(record[k])
		}
	}
	return rows, err
}

func jsonRows(data []byte) ([]map[string]string, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var raw []map[string]any
	if err := d.Decode(&raw); err != nil {
		return nil, err
	}
	rows := make([]map[string]string, len(raw))
	for i, r := range raw {
		rows[i] = make(map[string]string, len(r))
		for k, v := range r {
			rows[i][k] = fmt.Sprint(v)
		}
	}
	return rows, nil
}

// mori reads the tuning_configs tables of ROCm/mori.
var mori = Format{
	Name: "mori",
	Doc:  "tuning_configs JSON of Mori",
	Detect: func(head []byte) bool {
		return firstByte(head) == '{' && bytes.Contains(head, []byte(`"ep_size"`)) && bytes.Contains(head, []byte(`"rules"`))
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
	Latency   float64 `json:"latency_us"`
}

func readMori(data []byte, g Given) ([]Figure, []string, error) {
	var doc struct {
		GPU    string     `json:"gpu_model"`
		Kernel string     `json:"kernel_type"`
		Ranks  int        `json:"ep_size"`
		Phase  string     `json:"phase"`
		Rules  []moriRule `json:"rules"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, nil, err
	}
	op, err := ep.ParseOp(doc.Phase)
	if err != nil {
		return nil, nil, fmt.Errorf("phase: %w", err)
	}
	g.Ranks = doc.Ranks
	var out []Figure
	var warnings []string
	for i, rule := range doc.Rules {
		f, skipped, err := rule.figure(op, g)
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

var moriTypes = map[string]ep.DType{"bf16": ep.BF16, "bfloat16": ep.BF16, "fp8": ep.FP8, "fp8_ocp": ep.FP8, "fp8_fnuz": ep.FP8, "fp8_e4m3": ep.FP8}

// figure reads one rule; skipped says why there is no figure of it.
func (r moriRule) figure(op ep.Op, g Given) (f Figure, skipped string, err error) {
	dtype, ok := moriTypes[r.DType]
	if !ok {
		return f, fmt.Sprintf("rules of dtype %.20q left out: no dtype of ours has its bytes", r.DType), nil
	}
	g.TopK, g.Experts = cmp.Or(max(r.TopK, 0), g.TopK), cmp.Or(max(r.Experts, 0), g.Experts)
	g.Tokens, g.Hidden = r.Tokens, r.Hidden
	if err := g.require("experts", "topk", "ranks", "tokens", "hidden"); err != nil {
		return f, "", err
	}
	p := g.problem(op, dtype)
	p.Mode = ep.Graph
	f = Figure{
		Problem: p, Seconds: r.Latency * 1e-6, Clock: "event",
		Values: map[string]ep.Value{"sms": ep.Value(strconv.Itoa(r.Blocks)), "warps": ep.Value(strconv.Itoa(r.Warps))},
		Note:   fmt.Sprintf("%.2f GB/s by the mori definition; best of its own sweep, graph replay; sms are blocks", r.Bandwidth),
	}
	if r.Latency == 0 && r.Bandwidth > 0 {
		d, _ := FindDefinition("mori")
		f.Seconds = d.Seconds(p, r.Bandwidth)
		f.Note = fmt.Sprintf("%.2f GB/s turned into a time by the mori definition with uniform routing", r.Bandwidth)
	}
	return f, "", nil
}
