package engines

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

func TestAIConfiguratorWithoutLevel(t *testing.T) {
	l := deepEPRunAs(normal, "deepep", ep.FP8)
	c := l.Cases[0]
	want := c.Entries[1].Level
	c.Entries[0].Level = math.NaN()
	table := a2aTable{keys: map[a2aRow]bool{}}
	table.add(l, c)
	rows := table.rows
	if len(rows) != 2 || rows[0].Latency != want*1e6 || math.IsNaN(rows[1].Latency) {
		t.Errorf("%+v, want %g us first", rows, want*1e6)
	}
}

func TestAIConfigurator(t *testing.T) {
	const header = "framework,version,device,op_name,kernel_source,comm_backend,phase,comm_dtype,ep_size,node_num,hidden_size,topk,num_experts,num_tokens,sms,transmit_us,notify_us,latency"
	for _, c := range []struct {
		kernel, library string
		dtype           ep.DType
		rows            int // 2 ops x 2 token counts x 2 SMs
		words           string
		note            string
	}{
		{normal, "deepep", ep.FP8, 8, "deepep_ht default, deepep_ht default", ""},
		{normal, "deepep", ep.BF16, 4, "deepep_ht default", "8 configs left out: aiconfigurator's rows of DeepEP have one dtype"},
		{oneSided, "flashinfer", ep.FP8, 8, "nvlink_one_sided fp8, nvlink_one_sided fp8", ""},
		{oneSided, "flashinfer", ep.BF16, 8, "nvlink_one_sided bfloat16, nvlink_one_sided bfloat16", ""},
	} {
		out, err := writeAIConfigurator(Input{Run: deepEPRunAs(c.kernel, c.library, c.dtype)})
		if err != nil {
			t.Fatal(err)
		}
		file, err := parquet.OpenFile(bytes.NewReader(out.Data), int64(len(out.Data)))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range file.Schema().Fields() {
			names = append(names, f.Name())
		}
		if got := strings.Join(names, ","); got != header {
			t.Errorf("columns %s", got)
		}
		rows, err := parquet.Read[a2aRow](bytes.NewReader(out.Data), int64(len(out.Data)))
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, phase := range []string{"dispatch", "combine"} {
			if i := slices.IndexFunc(rows, func(r a2aRow) bool { return r.Phase == phase && r.Tokens == 4096 && r.SMs == 24 }); i >= 0 {
				words = append(words, rows[i].CommBackend+" "+rows[i].CommDType)
				if fmt.Sprintf("%.1f", rows[i].Latency) != "300.0" {
					t.Errorf("%+v", rows[i])
				}
			}
		}
		if got := strings.Join(words, ", "); got != c.words || len(rows) != c.rows || !strings.Contains(strings.Join(out.Notes, "; "), c.note) {
			t.Errorf("%s, %s: %d rows, words %s, notes %q; want %d rows, words %s", c.kernel, c.dtype, len(rows), got, out.Notes, c.rows, c.words)
		}
	}
}

func TestSkewedRowsStayOut(t *testing.T) {
	l := deepEPRunAs(normal, "deepep", ep.FP8)
	for i, r := range l.Results {
		if r.Problem.Tokens == 4096 {
			l.Results[i].Routing = "zipf:1.2"
		}
	}
	l.Cases = reports.Cases(l.Run, l.Results)
	out, err := writeAIConfigurator(Input{Run: l})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parquet.Read[a2aRow](bytes.NewReader(out.Data), int64(len(out.Data)))
	if err != nil || len(rows) != 4 || slices.ContainsFunc(rows, func(r a2aRow) bool { return r.Tokens != 128 }) {
		t.Errorf("%d rows %+v, %v; want the 4 rows with 128 tokens", len(rows), rows, err)
	}
	if notes := strings.Join(out.Notes, "; "); !strings.Contains(notes, "2 cases left out: the table has no column for op pair or for routings other than uniform") {
		t.Errorf("notes %q", notes)
	}
}
