package engines

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

// a2aRow is a row of moe_a2a_perf, in the order of its columns. latency and the two
// times that it is made of are microseconds.
type a2aRow struct {
	Framework    string  `parquet:"framework"`
	Version      string  `parquet:"version"`
	Device       string  `parquet:"device"`
	OpName       string  `parquet:"op_name"`
	KernelSource string  `parquet:"kernel_source"`
	CommBackend  string  `parquet:"comm_backend"`
	Phase        string  `parquet:"phase"`
	CommDType    string  `parquet:"comm_dtype"`
	Ranks        int64   `parquet:"ep_size"`
	Nodes        int64   `parquet:"node_num"`
	Hidden       int64   `parquet:"hidden_size"`
	TopK         int64   `parquet:"topk"`
	Experts      int64   `parquet:"num_experts"`
	Tokens       int64   `parquet:"num_tokens"`
	SMs          int64   `parquet:"sms"`
	Transmit     float64 `parquet:"transmit_us"`
	Notify       float64 `parquet:"notify_us"`
	Latency      float64 `parquet:"latency"`
}

// commBackends are aiconfigurator's names of our workers' kernels.
var commBackends = map[string]string{normal: "deepep_ht", "deepep-ll": "deepep_ll", oneSided: "NVLinkOneSided"}

// writeAIConfigurator writes the fastest config for each kernel, token count and number
// of SMs under uniform routing, the only one that the table knows. The exchange of counts
// is inside the time, so that all of it stands in transmit_us.
func writeAIConfigurator(in Input) (Output, error) {
	var rows []a2aRow
	left := 0
	for _, c := range in.Run.Cases {
		if c.Problem.Op == ep.Pair || c.Routing != "uniform" {
			left++
			continue
		}
		rows = append(rows, a2aRows(in.Run, c)...)
	}
	if len(rows) == 0 {
		return Output{}, fmt.Errorf("the run has no dispatch or combine of deepep-normal, deepep-ll or flashinfer under uniform routing")
	}
	var b bytes.Buffer
	if err := parquet.Write(&b, rows); err != nil {
		return Output{}, err
	}
	notes := []string{fmt.Sprintf("%d rows", len(rows))}
	if left > 0 {
		notes = append(notes, fmt.Sprintf("%d cases left out: pairs, and routings that the table has no column for", left))
	}
	return Output{b.Bytes(), notes}, nil
}

// a2aRows are the rows of one case. Entries come fastest first.
func a2aRows(l *reports.Loaded, c *reports.Case) []a2aRow {
	type id struct {
		backend string
		sms     int
	}
	seen := map[id]bool{}
	var out []a2aRow
	for _, e := range c.Entries {
		at := id{commBackends[e.Config.Kernel], e.Config.Int("sms")}
		if at.backend == "" || !e.OK() || !(e.Level > 0) || seen[at] { // NaN is no latency
			continue
		}
		seen[at] = true
		p, w := c.Problem, l.Run.Work(c.Problem.Op, e.Config)
		dtype := "default"
		if p.Dispatch == ep.FP8 && p.Op == ep.Dispatch {
			dtype = "fp8"
		}
		us := e.Level * 1e6
		out = append(out, a2aRow{"epbench", l.Run.Tool, strings.Join(strings.Fields(l.Run.Machine.Name), " "), "moe_a2a", w.Library, at.backend,
			string(p.Op), dtype, int64(p.Ranks), int64(p.Nodes), int64(p.Hidden), int64(p.TopK), int64(p.Experts), int64(p.Tokens), int64(at.sms), us, 0, us})
	}
	return out
}
