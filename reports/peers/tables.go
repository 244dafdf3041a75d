package peers

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/epbench/epbench/tune/ep"
)

// aiconfigurator reads the wideep_deepep_ll and wideep_deepep_normal tables
// of ai-dynamo/aiconfigurator: the CSV that its collector writes, or the same
// rows as a JSON array of objects.
var aiconfigurator = Format{
	Name: "aiconfigurator",
	Doc:  "moe_a2a, deepep_ll or deepep_normal table of aiconfigurator: Parquet, CSV or JSON rows",
	Detect: func(head []byte) bool {
		return bytes.Contains(head, []byte("comm_backend")) || bytes.Contains(head, []byte("combine_avg_t_us")) || bytes.Contains(head, []byte("combine_transmit_us")) ||
			bytes.HasPrefix(head, []byte("PAR1"))
	},
	Read: readAIConfigurator,
}

func readAIConfigurator(data []byte, g Given) ([]Figure, []string, error) {
	rows, err := tableRows(data)
	if err != nil {
		return nil, nil, err
	}
	var out []Figure
	var warnings []string
	for i, row := range rows {
		read := aiRow
		if _, ok := row["comm_backend"]; ok {
			read = a2aRow
		}
		figures, skipped, err := read(row, g)
		if err != nil {
			return nil, nil, fmt.Errorf("row %d: %w", i+1, err)
		}
		if skipped != "" {
			warnings = append(warnings, skipped)
		}
		out = append(out, figures...)
	}
	if len(out) == 0 && len(warnings) > 0 {
		return nil, nil, errors.New(warnings[0])
	}
	return out, warnings, nil
}

// aiRow makes the figures of one row, for dispatch and combine. None is skipped.
func aiRow(row map[string]string, g Given) (figures []Figure, skipped string, err error) {
	nodes := 1
	if err := setCounts(count{"node_num", row["node_num"], &nodes}, count{"hidden_size", row["hidden_size"], &g.Hidden}, count{"num_token", row["num_token"], &g.Tokens},
		count{"num_topk", row["num_topk"], &g.TopK}, count{"num_experts", row["num_experts"], &g.Experts}); err != nil {
		return nil, "", err
	}
	// The collector runs on hosts of eight GPUs and stores only their number.
	g.Nodes, g.Ranks = nodes, 8*nodes
	figure := aiNormal
	if _, ok := row["combine_avg_t_us"]; ok {
		figure = aiLowLatency
	}
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
		f, err := figure(row, string(op))
		if err != nil {
			return nil, "", err
		}
		f.Problem = g.problem(op, ep.FP8)
		figures = append(figures, f)
	}
	return figures, "", nil
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

// a2aRow is a row of the table that serves all libraries. Its latency is microseconds.
func a2aRow(row map[string]string, g Given) (figures []Figure, skipped string, err error) {
	if err := setCounts(count{"ep_size", row["ep_size"], &g.Ranks}, count{"node_num", row["node_num"], &g.Nodes}, count{"hidden_size", row["hidden_size"], &g.Hidden},
		count{"num_tokens", row["num_tokens"], &g.Tokens}, count{"topk", row["topk"], &g.TopK}, count{"num_experts", row["num_experts"], &g.Experts}); err != nil {
		return nil, "", err
	}
	op, err := ep.ParseOp(row["phase"])
	if err != nil {
		return nil, "", nil // phases such as prepare have no counterpart
	}
	dtype := a2aType(row["comm_backend"], row["comm_dtype"])
	if dtype == "" {
		return nil, fmt.Sprintf("%s of %.30q with comm_dtype %.20q left out: not known what travels", op, row["comm_backend"], row["comm_dtype"]), nil
	}
	us, err := number(row["latency"])
	if err != nil {
		return nil, "", fmt.Errorf("latency: %w", err)
	}
	f := Figure{Kernel: strings.ToLower(strings.ReplaceAll(row["comm_backend"], "_", "-")), Problem: g.problem(op, dtype), Seconds: us * 1e-6, Clock: "event",
		Note: fmt.Sprintf("of %s %s, comm_dtype %s", row["framework"], row["version"], row["comm_dtype"])}
	if sms := ep.Value(row["sms"]); sms != "" && sms != "0" {
		f.Values = map[string]ep.Value{"sms": sms}
	}
	return []Figure{f}, "", nil
}

// a2aType translates a comm_dtype of aiconfigurator into the dtype that a dispatch sends. It
// returns "" for an unknown word. Rows of a combine have the word of their dispatch: the combine itself sends BF16,
// unless the word is fp4, which names a combine of low precision.
func a2aType(backend, word string) ep.DType {
	switch {
	case word == "default" && strings.HasPrefix(strings.ToLower(backend), "deepep"):
		return ep.FP8 // these rows have no dtype: the engines cast to FP8, and get BF16 back
	case word == "bfloat16", word == "bf16":
		return ep.BF16
	case strings.HasPrefix(word, "fp8"):
		return ep.FP8
	case word == "nvfp4":
		return ep.NVFP4
	}
	return ""
}

// parquetRows reads a flat Parquet file. The library panics on some damaged ones.
func parquetRows(data []byte) (rows []map[string]string, err error) {
	defer func() {
		if what := recover(); what != nil {
			rows, err = nil, fmt.Errorf("damaged Parquet file: %v", what)
		}
	}()
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	if n := file.NumRows(); n > maxRows {
		return nil, fmt.Errorf("%d rows, at most %d are read", n, maxRows)
	}
	columns := file.Schema().Columns()
	in := parquet.NewReader(file)
	defer in.Close()
	for block := make([]parquet.Row, 256); ; {
		n, err := in.ReadRows(block)
		for _, r := range block[:n] {
			row := make(map[string]string, len(columns))
			for _, v := range r {
				if !v.IsNull() {
					row[strings.Join(columns[v.Column()], ".")] = v.String()
				}
			}
			rows = append(rows, row)
		}
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// maxRows bounds a Parquet file, whose rows take far more memory than its bytes.
const maxRows = 1 << 20

// tableRows reads Parquet, a CSV with a header, or a JSON array of flat objects.
func tableRows(data []byte) ([]map[string]string, error) {
	if bytes.HasPrefix(data, []byte("PAR1")) {
		return parquetRows(data)
	}
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
