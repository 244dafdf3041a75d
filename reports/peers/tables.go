package peers

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/bounded"
	"github.com/epbench/epbench/tune/ep"
)

// aiconfigurator reads four tables of ai-dynamo/aiconfigurator (commit 095f58a): moe_a2a_perf, trtllm_alltoall_perf,
// and the older wideep_deepep_ll and wideep_deepep_normal.
var aiconfigurator = Format{
	Name:   "aiconfigurator",
	Doc:    "moe_a2a, trtllm_alltoall, deepep_ll or deepep_normal table of aiconfigurator: Parquet, CSV or JSON rows",
	Checks: "deepep_ll: GB/s x us = tokens x top-k x payload; moe_a2a: transmit_us + notify_us = latency; trtllm_alltoall: none",
	Detect: func(head []byte) bool {
		return bytes.Contains(head, []byte("comm_backend")) || bytes.Contains(head, []byte("combine_avg_t_us")) || bytes.Contains(head, []byte("combine_transmit_us")) ||
			bytes.Contains(head, []byte("moe_ep_size")) || bytes.HasPrefix(head, []byte("PAR1"))
	},
	Read: readAIConfigurator,
}

func readAIConfigurator(data []byte, g Given) ([]Figure, []string, error) {
	rows, err := tableRows(data)
	if err != nil {
		return nil, nil, err
	}
	f := newFacts(g)
	var out []Figure
	for i, row := range rows {
		figures, err := rowReader(row)(row, f)
		if err != nil {
			return nil, nil, fmt.Errorf("row %d: %w", i+1, err)
		}
		out = append(out, figures...)
	}
	if len(out) == 0 && len(f.warnings) > 0 {
		return nil, nil, errors.New(f.warnings[0])
	}
	return out, f.warnings, nil
}

func rowReader(row map[string]string) func(map[string]string, *facts) ([]Figure, error) {
	if _, ok := row["comm_backend"]; ok {
		return a2aRow
	}
	if _, ok := row["moe_ep_size"]; ok {
		return trtllmRow
	}
	return deepEPRow
}

func deepEPRow(row map[string]string, f *facts) (figures []Figure, err error) {
	nodes := cmp.Or(row["node_num"], "1")
	n, err := strconv.Atoi(nodes)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("node_num: %.20q is not a whole number from 1 up", nodes)
	}
	// The table does not give the number of ranks. aiconfigurator measures it on hosts of eight GPUs.
	g, err := f.with(said{"nodes", "node_num", nodes}, said{"ranks", "8 GPUs a node_num", strconv.Itoa(8 * n)}, said{"hidden", "hidden_size", row["hidden_size"]},
		said{"tokens", "num_token", row["num_token"]}, said{"topk", "num_topk", row["num_topk"]}, said{"experts", "num_experts", row["num_experts"]})
	if err == nil {
		err = g.require("ranks", "experts", "topk", "tokens", "hidden")
	}
	if err != nil {
		return nil, err
	}
	figure := aiNormal
	if _, ok := row["combine_avg_t_us"]; ok {
		figure = aiLowLatency
	}
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
		x, err := figure(row, op, g)
		if err != nil {
			return nil, err
		}
		x.Problem = g.problem(op, ep.FP8)
		figures = append(figures, x)
	}
	return figures, nil
}

// aiLowLatency reads one op of a row of wideep_deepep_ll. It returns an error if bandwidth times time is not the number
// of bytes that the problem sends.
func aiLowLatency(row map[string]string, op ep.Op, g Given) (Figure, error) {
	us, err := parsePrinted(row[string(op)+"_avg_t_us"])
	if err != nil {
		return Figure{}, fmt.Errorf("%s_avg_t_us: %w", op, err)
	}
	x := llFigure{us: us, gbps: lenient(row[string(op)+"_bandwidth_gbps"])}
	if why := x.check(op, g); why != "" {
		return Figure{}, errors.New(why)
	}
	return Figure{Kernel: "deepep-ll", Seconds: us.v * 1e-6, Clock: "span",
		Note: "kernel time, mean of calls and ranks; the dispatch includes the cast from BF16 to FP8"}, nil
}

func aiNormal(row map[string]string, half ep.Op, _ Given) (f Figure, err error) {
	op := string(half)
	us, err := number(row[op+"_transmit_us"])
	if err != nil {
		return f, fmt.Errorf("%s_transmit_us: %w", op, err)
	}
	notify, err := strconv.ParseFloat(row[op+"_notify_us"], 64)
	if err != nil || !(notify >= 0) {
		return f, fmt.Errorf("%s_notify_us: %.20q is not a time", op, row[op+"_notify_us"])
	}
	sms := ep.Value(row[op+"_sms"])
	if _, ok := sms.Int(); !ok {
		return f, fmt.Errorf("%s_sms: %.20q is not a whole number", op, sms)
	}
	return Figure{Kernel: "deepep-normal", Values: map[string]ep.Value{"sms": sms}, Seconds: (us + notify) * 1e-6, Clock: "event",
		Note: "time of transmit plus time of notify, mean of calls; with a cached handle and the best chunk size that the collector found; the input is already FP8"}, nil
}

// a2aRow reads a row of moe_a2a_perf, with times in microseconds.
func a2aRow(row map[string]string, f *facts) ([]Figure, error) {
	g, err := f.with(said{"ranks", "ep_size", row["ep_size"]}, said{"nodes", "node_num", row["node_num"]}, said{"hidden", "hidden_size", row["hidden_size"]},
		said{"tokens", "num_tokens", row["num_tokens"]}, said{"topk", "topk", row["topk"]}, said{"experts", "num_experts", row["num_experts"]})
	if err == nil {
		err = g.setNodes(f, 0, 0)
	}
	if err != nil {
		return nil, err
	}
	op, err := ep.ParseOp(row["phase"])
	if err != nil {
		f.warn("phase %.20q left out: it is neither a dispatch nor a combine", row["phase"])
		return nil, nil
	}
	dtype := a2aType(row["comm_backend"], row["comm_dtype"])
	if dtype == "" {
		f.warn("%s of %.30q with comm_dtype %.20q left out: the dtype that it sends is unknown", op, row["comm_backend"], row["comm_dtype"])
		return nil, nil
	}
	us, err := parsePrinted(row["latency"])
	if err != nil {
		return nil, fmt.Errorf("latency: %w", err)
	}
	transmit, notify := lenient(row["transmit_us"]), lenient(row["notify_us"])
	if sum := transmit.v + notify.v; transmit.v > 0 && math.Abs(sum-us.v) > us.half+transmit.half+notify.half+1e-6*sum {
		return nil, fmt.Errorf("transmit_us %g + notify_us %g is not latency %g", transmit.v, notify.v, us.v)
	}
	x := Figure{Kernel: strings.ToLower(strings.ReplaceAll(row["comm_backend"], "_", "-")), Problem: g.problem(op, dtype), Seconds: us.v * 1e-6, Clock: "event",
		Note: fmt.Sprintf("measured with %s %s, comm_dtype %s", row["framework"], row["version"], row["comm_dtype"])}
	if sms := ep.Value(row["sms"]); sms != "" && sms != "0" {
		x.Values = map[string]ep.Value{"sms": sms}
	}
	return []Figure{x}, nil
}

// trtllmHost is the number of GPUs on a host, by which aiconfigurator computes the number of hosts.
const trtllmHost = 4

// trtllmRow reads a row of trtllm_alltoall_perf, with latency in milliseconds.
func trtllmRow(row map[string]string, f *facts) ([]Figure, error) {
	ranks, err := strconv.Atoi(row["moe_ep_size"])
	if err != nil {
		return nil, fmt.Errorf("moe_ep_size: %.20q is not a whole number", row["moe_ep_size"])
	}
	g, err := f.with(said{"ranks", "moe_ep_size", row["moe_ep_size"]}, said{"nodes", "moe_ep_size / 4", strconv.Itoa(max(1, ranks/trtllmHost))},
		said{"hidden", "hidden_size", row["hidden_size"]}, said{"tokens", "num_tokens", row["num_tokens"]}, said{"topk", "topk", row["topk"]}, said{"experts", "num_experts", row["num_experts"]})
	if err != nil {
		return nil, err
	}
	word, _ := strings.CutPrefix(row["op_name"], "alltoall_")
	op, err := ep.ParseOp(word)
	dtype := a2aType(row["kernel_source"], row["moe_dtype"])
	if err != nil || dtype == "" {
		f.warn("%.40q with moe_dtype %.20q left out: epbench has no such op or dtype", row["op_name"], row["moe_dtype"])
		return nil, nil
	}
	ms, err := number(row["latency"])
	if err != nil {
		return nil, fmt.Errorf("latency: %w", err)
	}
	return []Figure{{Kernel: "trtllm-" + strings.ToLower(row["kernel_source"]), Problem: g.problem(op, dtype), Routing: row["distribution"], Seconds: ms * 1e-3, Clock: "event",
		Note: fmt.Sprintf("measured with %s %s, moe_dtype %s; without the preparation, which has a separate row", row["framework"], row["version"], row["moe_dtype"])}}, nil
}

// a2aType returns the dispatch dtype that comm_dtype means, or "". It returns "" for "fp4", which means a low-precision
// combine. epbench has no such combine.
func a2aType(backend, word string) ep.DType {
	switch {
	case word == "default" && strings.HasPrefix(strings.ToLower(backend), "deepep"):
		return ep.FP8 // DeepEP's rows name no dtype
	case word == "bfloat16", word == "bf16":
		return ep.BF16
	case strings.HasPrefix(word, "fp8"):
		return ep.FP8
	case word == "nvfp4":
		return ep.NVFP4
	}
	return ""
}

func tableRows(data []byte) ([]map[string]string, error) {
	cost := bounded.New(int64(len(data)))
	if bytes.HasPrefix(data, []byte("PAR1")) {
		return parquetRows(data, cost)
	}
	if firstByte(data) == '[' {
		return jsonRows(data, cost)
	}
	text := &recordReader{in: bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))}
	in := csv.NewReader(text)
	in.ReuseRecord = true
	header, err := text.next(in)
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	header = slices.Clone(header)
	var rows []map[string]string
	for {
		record, err := text.next(in)
		if err == io.EOF {
			return rows, nil
		}
		if err == nil {
			err = cost.Array("rows", int64(len(header)), fieldBytes)
		}
		if err != nil {
			return nil, err
		}
		row := make(map[string]string, len(header))
		for k, name := range header {
			row[strings.TrimSpace(name)] = strings.Clone(strings.TrimSpace(record[k]))
		}
		rows = append(rows, row)
	}
}

const maxRecord = 1 << 20

type recordReader struct {
	in   io.Reader
	left int
}

func (r *recordReader) next(in *csv.Reader) ([]string, error) {
	r.left = maxRecord
	return in.Read()
}

// Read implements io.Reader.
func (r *recordReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, fmt.Errorf("a record is larger than %d bytes", maxRecord)
	}
	n, err := r.in.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// fieldBytes is the memory of a field without its text.
const fieldBytes = 2 * bounded.ObjectBytes

func jsonRows(data []byte, cost *bounded.Budget) (rows []map[string]string, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		var raw map[string]any
		start := d.InputOffset()
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		// An element takes 16 bytes of memory, but as few as 2 bytes in the file.
		if err := cost.Array("rows", int64(len(raw))+(d.InputOffset()-start)/8, fieldBytes); err != nil {
			return nil, err
		}
		row := make(map[string]string, len(raw))
		for k, v := range raw {
			row[k] = fmt.Sprint(v)
		}
		rows = append(rows, row)
	}
	_, err = d.Token()
	return rows, err
}
