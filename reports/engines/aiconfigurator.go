package engines

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

// a2aRow is a row of aiconfigurator's table moe_a2a_perf. Times are in microseconds. Latency is Transmit plus Notify.
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

// commBackends maps kernels and dtypes to aiconfigurator's names.
var commBackends = map[string]struct {
	name   string
	dtypes map[ep.DType]string
}{
	normal:      {"deepep_ht", map[ep.DType]string{ep.FP8: "default"}},
	"deepep-ll": {"deepep_ll", map[ep.DType]string{ep.FP8: "default"}},
	oneSided:    {"nvlink_one_sided", map[ep.DType]string{ep.FP8: "fp8", ep.BF16: "bfloat16"}},
}

type a2aTable struct {
	rows  []a2aRow
	keys  map[a2aRow]bool // rows so far, without times
	cases int             // cases left out
	bf16  int             // configs left out, because aiconfigurator has no name for their dtype
}

// writeAIConfigurator writes each kernel's fastest config for each token count and number of SMs, under uniform
// routing. transmit_us has the whole time, because notify_us is not measured.
func writeAIConfigurator(in Input) (Output, error) {
	t := a2aTable{keys: map[a2aRow]bool{}}
	for _, c := range in.Run.Cases {
		if c.Problem.Op == ep.Pair || c.Routing != "uniform" {
			t.cases++
			continue
		}
		t.add(in.Run, c)
	}
	if len(t.rows) == 0 {
		return Output{}, fmt.Errorf("the run has no dispatch or combine of deepep-normal, deepep-ll or flashinfer under uniform routing, in a dtype that the table has%s", t.whyLeftOut())
	}
	var b bytes.Buffer
	if err := parquet.Write(&b, t.rows); err != nil {
		return Output{}, err
	}
	notes := []string{fmt.Sprintf("%d rows", len(t.rows))}
	if t.cases > 0 {
		notes = append(notes, fmt.Sprintf("%d cases left out: the table has no column for op pair or for routings other than uniform", t.cases))
	}
	if t.bf16 > 0 {
		notes = append(notes, fmt.Sprintf("%d configs left out%s", t.bf16, t.whyLeftOut()))
	}
	return Output{b.Bytes(), notes}, nil
}

func (t *a2aTable) whyLeftOut() string {
	if t.bf16 == 0 {
		return ""
	}
	return ": aiconfigurator's rows of DeepEP have one dtype, an FP8 dispatch; sweep with --dtype fp8"
}

// add adds a case's rows. The case's entries come fastest first.
func (t *a2aTable) add(l *reports.Loaded, c *reports.Case) {
	for _, e := range c.Entries {
		backend, ours := commBackends[e.Config.Kernel]
		if !ours || !e.OK() || !(e.Level > 0) { // Level may be NaN
			continue
		}
		p, w := c.Problem, l.Run.Work(c.Problem.Op, e.Config)
		word := backend.dtypes[p.Dispatch]
		if word == "" && p.Op == ep.Combine && p.Dispatch == ep.BF16 {
			word = backend.dtypes[ep.FP8] // a combine sends BF16, even after a dispatch in FP8
		}
		if word == "" {
			t.bf16++
			continue
		}
		row := a2aRow{Framework: "epbench", Version: l.Run.Tool, Device: strings.Join(strings.Fields(l.Run.Machine.Name), " "), OpName: "moe_a2a",
			KernelSource: w.Library, CommBackend: backend.name, Phase: string(p.Op), CommDType: word, Ranks: int64(p.Ranks), Nodes: int64(p.Nodes),
			Hidden: int64(p.Hidden), TopK: int64(p.TopK), Experts: int64(p.Experts), Tokens: int64(p.Tokens), SMs: int64(e.Config.Int("sms"))}
		if t.keys[row] {
			continue
		}
		t.keys[row] = true
		row.Transmit, row.Latency = e.Level*1e6, e.Level*1e6
		t.rows = append(t.rows, row)
	}
}
